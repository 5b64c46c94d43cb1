//! Who stands in the way of what is wanted, and what would free it.

use crate::claim::Claim;
use crate::command_line;
use crate::family;
use crate::identity;
use crate::inventory::{self, LockView};
use crate::key::Lock;
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
        let lock = self.lock(holder);
        let is_same = |other: &&LockView| other.lock_key == holder.lock_key;
        let count = self.holders.iter().filter(is_same).count();
        match self.claim.slots {
            Some(slots) if lock.key == self.claim.lock.key => {
                let longest = holder.describe();
                format!("{count} of {slots} slots of {lock} are held, the longest by {longest}")
            }
            _ if count > 1 => {
                format!("{} and {} more", holder.describe_as(lock), count - 1)
            }
            _ => holder.describe_as(lock),
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
    let mut words = vec!["pglock", "release"];
    let key = lock.key.to_string();
    let name = match &lock.name {
        None => {
            words.push("--raw");
            &key
        }
        Some(name) => {
            words.extend(name.rule.options());
            let namespace = name.namespace.as_deref();
            words.extend(
                namespace
                    .map(|namespace| ["-N", namespace])
                    .into_iter()
                    .flatten(),
            );
            &name.name
        }
    };
    words.extend(name.starts_with('-').then_some("--"));
    words.push(name);
    command_line::display(&words)
}
