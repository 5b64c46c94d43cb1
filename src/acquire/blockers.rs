//! Who stands in the way of what is wanted, and what would free it.

use crate::claim::Claim;
use crate::command_line;
use crate::family;
use crate::identity;
use crate::inventory::{self, LockView};
use crate::key::{Lock, LockName};
use crate::session::{Request, Session};

/// Those who hold what is wanted, oldest first.
pub struct Blockers<'a> {
    claim: &'a Claim,
    holders: Vec<LockView>,
}

impl<'a> Blockers<'a> {
    /// Asks the server, in one round trip.
    pub async fn of(claim: &'a Claim, session: &mut Session) -> anyhow::Result<Self> {
        let holders = inventory::holders(session, &claim.keys()).await?;
        Ok(Self { claim, holders })
    }

    /// The pglock that runs this process and will not let go before it has ended.
    pub fn ancestor(&self) -> Option<&LockView> {
        let host = identity::host_name();
        let ancestors = family::ancestors();
        self.holders.iter().find(|holder| {
            // Another slot may become free.
            let only = holder.lock_key != self.claim.lock.key
                || self.claim.slots.is_none_or(|slots| slots < 2);
            let is_here = holder.host.as_ref() == Some(&host);
            only && is_here
                && holder
                    .wrapper_pid
                    .is_some_and(|pid| ancestors.contains(&pid))
        })
    }

    /// One line: what is held by whom.
    pub fn held(&self) -> String {
        let Some(holder) = self.holders.first() else {
            return format!("{} was held a moment ago", self.claim.lock);
        };
        let (lock, described) = (self.lock(holder), holder.describe());
        let is_same = |other: &&LockView| other.lock_key == holder.lock_key;
        let count = self.holders.iter().filter(is_same).count();
        match self.claim.slots {
            Some(slots) if lock.key == self.claim.lock.key => {
                format!("{count} of {slots} slots of {lock} are held, the longest by {described}")
            }
            _ if count > 1 => {
                format!("{lock} is held by {described} and {} more", count - 1)
            }
            _ => format!("{lock} is held by {described}"),
        }
    }

    /// The same, with how the wait went, and what would free it.
    pub fn describe(&self, waited: Option<&str>) -> String {
        if let Some(ancestor) = self.ancestor() {
            let (lock, holder) = (self.lock(ancestor), ancestor.describe());
            return format!(
                "{lock} is held by {holder}, and this command runs under that: it would wait for itself"
            );
        }
        let waited = waited.map(|waited| format!("; {waited}"));
        let holder = self.holders.first();
        let free = holder.map(|holder| format!("; to free it: {}", release(self.lock(holder))));
        let more = [waited, free].into_iter().flatten();
        more.fold(self.held(), |line, more| line + &more)
    }

    /// What of it all that is.
    fn lock(&self, holder: &LockView) -> &Lock {
        let mut locks = self.claim.locks();
        locks
            .find(|lock| lock.key == holder.lock_key)
            .unwrap_or(&self.claim.lock)
    }
}

/// Whether a wait would have no end: what is wanted is held by a pglock that runs this process.
///
/// Nobody is asked unless the environment is that of a pglock's command.
pub async fn waits_for_itself(session: &mut Session, request: &Request) -> anyhow::Result<bool> {
    if std::env::var_os("PGLOCK_BACKEND_PID").is_none() {
        return Ok(false);
    }
    let blockers = Blockers::of(&request.identity.claim, session).await?;
    Ok(blockers.ancestor().is_some())
}

/// The command that frees a lock.
fn release(lock: &Lock) -> String {
    let (how, name) = match &lock.name {
        None => (vec!["--raw"], &lock.key.to_string()),
        Some(LockName {
            namespace: None,
            name,
        }) => (vec![], name),
        Some(LockName {
            namespace: Some(namespace),
            name,
        }) => (vec!["-N", namespace.as_str()], name),
    };
    let separator = name.starts_with('-').then_some("--");
    let words = ["pglock", "release"].into_iter().chain(how);
    let words: Vec<&str> = words.chain(separator).chain([name.as_str()]).collect();
    command_line::display(&words)
}
