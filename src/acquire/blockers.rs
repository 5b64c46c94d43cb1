//! Who stands in the way of what is wanted, and what would free it.

use std::collections::HashSet;

use crate::command_line;
use crate::inventory::{self, LockView};
use crate::key::{Lock, LockKey, Mode};
use crate::session::{Request, Session};

/// Those who hold what is wanted, in modes that exclude the one that is wanted, oldest first.
pub struct Blockers<'a> {
    request: &'a Request,
    holders: Vec<LockView>,
}

impl<'a> Blockers<'a> {
    /// Asks the server, in one round trip.
    pub async fn of(request: &'a Request, session: &mut Session) -> anyhow::Result<Self> {
        let claim = &request.identity.claim;
        let mut holders = inventory::holders(session, &claim.keys()).await?;
        let wanted: Vec<LockKey> = claim.choices().flatten().collect();
        holders.retain(|holder| {
            let excludes = request.mode == Mode::Exclusive || holder.mode == Mode::Exclusive;
            excludes && wanted.iter().any(|key| holder.key == *key)
        });
        Ok(Self { request, holders })
    }

    /// A pglock that runs this process and will not let go before it has ended, if nothing else will do than what such
    /// a one holds.
    fn ancestor(&self) -> Option<&LockView> {
        let is_above = |holder: &&LockView| {
            let mut above = self.request.above.iter();
            above.any(|above| holder.key == above.key && Some(above.backend_pid) == holder.pid)
        };
        let theirs: Vec<&LockView> = self.holders.iter().filter(is_above).collect();
        let is_hopeless = |keys: Vec<LockKey>| {
            keys.iter()
                .any(|key| theirs.iter().any(|holder| holder.key == *key))
        };
        let mut choices = self.request.identity.claim.choices();
        let first = theirs.first().copied()?;
        choices.all(is_hopeless).then_some(first)
    }

    /// The one to be named.
    fn first(&self) -> Option<&LockView> {
        // Another slot may become free, but nothing stands in for these.
        let slots_of = self.request.identity.claim.lock.key;
        let is_also = |holder: &&LockView| holder.lock_key != slots_of;
        self.holders.iter().find(is_also).or(self.holders.first())
    }

    /// One line: what is held by whom.
    pub fn held(&self) -> String {
        let claim = &self.request.identity.claim;
        let Some(holder) = self.first() else {
            return format!("{} was held a moment ago", claim.lock);
        };
        let lock = self.lock(holder);
        // A session may hold the lock in both modes.
        let same = self.holders.iter();
        let same = same.filter(|other| other.lock_key == holder.lock_key);
        let sessions: HashSet<Option<i32>> = same.map(|other| other.pid).collect();
        let count = sessions.len();
        match claim.slots {
            Some(slots) if lock.key == claim.lock.key => {
                let longest = holder.describe();
                format!("{count} of {slots} slots of {lock} are held, the longest by {longest}")
            }
            Some(_) | None if count > 1 => {
                format!("{} and {} more", holder.describe_as(lock), count - 1)
            }
            Some(_) | None => holder.describe_as(lock),
        }
    }

    /// The same, with how the wait went, and what would free it there.
    pub fn describe(&self, waited: Option<&str>, place: &[String]) -> String {
        if let Some(ancestor) = self.ancestor() {
            let (lock, holder) = (self.lock(ancestor), ancestor.describe());
            return format!(
                "{lock} is held by {holder}, and this command runs under that: it would wait for itself"
            );
        }
        let waited = waited.map(|waited| format!("; {waited}"));
        let free = self.first().map(|holder| {
            let release = release(self.lock(holder), place);
            format!("; to free it: {release}")
        });
        let more = [waited, free].into_iter().flatten();
        more.fold(self.held(), |line, more| line + &more)
    }

    /// What of it all that is.
    fn lock(&self, holder: &LockView) -> &Lock {
        let claim = &self.request.identity.claim;
        let mut locks = claim.locks();
        let lock = locks.find(|lock| holder.lock_key == lock.key);
        lock.unwrap_or(&claim.lock)
    }
}

/// Whether a wait would have no end: what is wanted is held by a pglock that runs this process.
///
/// Nobody is asked unless the environment is that of a pglock's command; what cannot be asked is waited for.
pub async fn waits_for_itself(session: &mut Session, request: &Request) -> anyhow::Result<bool> {
    if request.above.is_empty() {
        return Ok(false);
    }
    let blockers = Blockers::of(request, session).await;
    Ok(blockers.is_ok_and(|blockers| blockers.ancestor().is_some()))
}

/// The command that frees a lock in that place.
fn release(lock: &Lock, place: &[String]) -> String {
    let mut words = vec!["pglock", "release"];
    words.extend(place.iter().map(String::as_str));
    let key = lock.key.to_string();
    let name = match &lock.name {
        None => {
            words.push("--raw");
            &key
        }
        Some(name) => {
            words.extend(name.rule.options());
            let namespace = name.namespace.as_deref();
            let options = namespace.map(|namespace| ["-N", namespace]);
            words.extend(options.into_iter().flatten());
            &name.name
        }
    };
    words.extend(name.starts_with('-').then_some("--"));
    words.push(name);
    command_line::to_be_pasted(&words)
}
