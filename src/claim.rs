//! What is asked for under a NAME: one lock, several together, or one of several slots.

use crate::key::{Lock, LockKey};

/// A lock, and what else of its kind is wanted with it or will do in its place.
#[derive(Clone, Debug)]
pub struct Claim {
    pub lock: Lock,
    /// Wanted together with it.
    pub also: Vec<Lock>,
    /// How many may hold it at once, each in a slot of its own; slot 0 is the lock itself.
    pub slots: Option<u32>,
}

impl Claim {
    /// That lock alone.
    pub fn of(lock: Lock) -> Self {
        Self {
            lock,
            also: Vec::new(),
            slots: None,
        }
    }

    /// The locks that are wanted, whichever slot it is.
    pub fn locks(&self) -> impl Iterator<Item = &Lock> {
        std::iter::once(&self.lock).chain(&self.also)
    }

    /// Their keys in the one order in which everybody takes them, each once. Whoever waits stands in the queue of each.
    pub fn keys(&self) -> Vec<LockKey> {
        let mut keys: Vec<LockKey> = self.locks().map(|lock| lock.key).collect();
        keys.sort_unstable();
        keys.dedup();
        keys
    }

    /// Those of them that have no slots.
    pub fn also_keys(&self) -> Vec<LockKey> {
        let mut keys = self.keys();
        keys.retain(|key| *key != self.lock.key);
        keys
    }

    /// The keys of the slots, lowest first.
    pub fn slot_keys(&self) -> impl Iterator<Item = LockKey> {
        (0..self.slots.unwrap_or(1)).map(|slot| self.lock.key.slot(slot))
    }

    /// What will do: for each slot the keys to take, in the order of [`Self::keys`].
    pub fn choices(&self) -> impl Iterator<Item = Vec<LockKey>> {
        self.slot_keys().map(|slot| {
            let in_slot = |key| if key == self.lock.key { slot } else { key };
            self.keys().into_iter().map(in_slot).collect()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::{LockName, Rule};

    fn lock(name: &str) -> Lock {
        let name = LockName {
            namespace: None,
            name: name.to_owned(),
            rule: Rule::default(),
        };
        name.try_into().expect("every name has a key")
    }

    #[test]
    fn everybody_takes_several_in_one_order_and_each_once() {
        let claim = |first: &str, also: &[&str]| Claim {
            lock: lock(first),
            also: also.iter().copied().map(lock).collect(),
            slots: None,
        };
        let keys = claim("a", &["b", "c"]).keys();
        assert_eq!(keys.len(), 3);
        assert_eq!(keys, claim("c", &["a", "b", "c", "a"]).keys());
        assert_eq!(
            claim("a", &["b", "c"]).choices().collect::<Vec<_>>(),
            [keys]
        );
    }

    #[test]
    fn the_first_slot_is_the_lock_itself_and_no_two_are_the_same() {
        let mut slots = Claim {
            slots: Some(100),
            ..Claim::of(lock("a"))
        }
        .slot_keys()
        .collect::<Vec<_>>();
        assert_eq!(slots[0], lock("a").key);
        slots.sort_unstable();
        slots.dedup();
        assert_eq!(slots.len(), 100);
    }
}
