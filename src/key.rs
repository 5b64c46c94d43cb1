//! From a NAME to the key of its lock.
//!
//! The key is computed here, never by the server. In SQL the same:
//! `('x'||left(encode(sha256(convert_to(NAME,'UTF8')),'hex'),16))::bit(64)::bigint`.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;
use sha2::{Digest, Sha256};

use crate::exit::Fault;

/// The key of an advisory lock in one of its two forms, which never conflict with one another
/// (PostgreSQL documentation, 9.28.10 "Advisory Lock Functions").
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LockKey {
    Bigint(i64),
    Pair(i32, i32),
}

/// How a lock is held: by one, or by many at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    Exclusive,
    Shared,
}

/// A descriptive name, alone or in a namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockName {
    pub namespace: Option<String>,
    pub name: String,
}

/// A lock as the user speaks of it: by name, or by its bare key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lock {
    pub key: LockKey,
    /// `None` for a lock given as `--raw`.
    pub name: Option<LockName>,
}

impl LockName {
    /// The first key of every lock in `namespace`.
    pub fn namespace_key(namespace: &str) -> i32 {
        i32::from_be_bytes(leading(&Sha256::digest(namespace)))
    }

    /// The first 8 bytes of SHA-256(name), big-endian; in a namespace the first 4 of each.
    pub fn key(&self) -> LockKey {
        let name = Sha256::digest(&self.name);
        match &self.namespace {
            None => LockKey::Bigint(i64::from_be_bytes(leading(&name))),
            Some(namespace) => LockKey::Pair(
                Self::namespace_key(namespace),
                i32::from_be_bytes(leading(&name)),
            ),
        }
    }
}

impl Lock {
    /// What spreads locks over places: the first 8 bytes of SHA-256(name), big-endian and unsigned, whatever the
    /// namespace. A raw key's name is the key as it is shown.
    pub fn number(&self) -> u64 {
        let digest = match &self.name {
            Some(name) => Sha256::digest(&name.name),
            None => Sha256::digest(self.key.to_string()),
        };
        u64::from_be_bytes(leading(&digest))
    }
}

impl LockKey {
    /// The key of one of the slots of a lock that several may hold at once; slot 0 is the lock itself.
    ///
    /// The others' are the first 8 bytes of SHA-256(`pglock slot KEY SLOT`), big-endian; in a namespace they stay
    /// there, and the first 4 are the second int4.
    pub fn slot(self, slot: u32) -> Self {
        let digest = Sha256::digest(format!("pglock slot {self} {slot}"));
        match self {
            _ if slot == 0 => self,
            Self::Bigint(_) => Self::Bigint(i64::from_be_bytes(leading(&digest))),
            Self::Pair(first, _) => Self::Pair(first, i32::from_be_bytes(leading(&digest))),
        }
    }

    /// The first key of the locks in which a queue for this lock stands.
    pub fn queue_class(self) -> i32 {
        i32::from_be_bytes(leading(&Sha256::digest(format!("pglock queue {self}"))))
    }

    /// The key of the lock that asks a holder to let go: its first int4 is of what the holder's session is called,
    /// the second is its backend. So nobody is asked who gets the lock next.
    pub fn release_request(application_name: &str, backend_pid: i32) -> Self {
        let digest = Sha256::digest(format!("pglock release {application_name}"));
        Self::Pair(i32::from_be_bytes(leading(&digest)), backend_pid)
    }
}

fn leading<const N: usize>(digest: &[u8]) -> [u8; N] {
    std::array::from_fn(|at| digest[at])
}

impl From<LockName> for Lock {
    fn from(name: LockName) -> Self {
        Self {
            key: name.key(),
            name: Some(name),
        }
    }
}

impl fmt::Display for LockKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bigint(key) => write!(f, "{key}"),
            Self::Pair(first, second) => write!(f, "{first},{second}"),
        }
    }
}

/// As a person reads it: `nightly-report`, `billing/nightly-report`, `key 42`.
impl fmt::Display for Lock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.name {
            None => write!(f, "key {}", self.key),
            Some(LockName {
                namespace: None,
                name,
            }) => f.write_str(name),
            Some(LockName {
                namespace: Some(namespace),
                name,
            }) => write!(f, "{namespace}/{name}"),
        }
    }
}

impl FromStr for LockKey {
    type Err = anyhow::Error;

    fn from_str(typed: &str) -> anyhow::Result<Self> {
        let parsed = match typed.split_once(',') {
            None => typed.parse().ok().map(Self::Bigint),
            Some((first, second)) => first
                .parse()
                .ok()
                .zip(second.parse().ok())
                .map(|(first, second)| Self::Pair(first, second)),
        };
        parsed.ok_or_else(|| {
            let typed = crate::text::printable(typed);
            Fault::Usage.error(format!(
                "'{typed}' is no key: write a 64-bit integer, or A,B with two 32-bit integers"
            ))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(namespace: Option<&str>, name: &str) -> LockKey {
        LockName {
            namespace: namespace.map(str::to_owned),
            name: name.to_owned(),
        }
        .key()
    }

    #[test]
    fn the_golden_vector_holds_for_ever() {
        assert_eq!(
            named(None, "my_lock"),
            LockKey::Bigint(9_207_781_743_510_115_226)
        );
    }

    #[test]
    fn a_namespaced_key_is_two_halves() {
        let LockKey::Bigint(whole) = named(None, "my_lock") else {
            panic!("a plain name has a bigint key")
        };
        let LockKey::Pair(_, second) = named(Some("ns"), "my_lock") else {
            panic!("a namespaced name has two int4")
        };
        assert_eq!(i64::from(second), whole >> 32);
    }
}
