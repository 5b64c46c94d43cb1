//! From a NAME to the key of its lock.
//!
//! The key is computed here, never by the server. In SQL the same, unless another [`Rule`] was asked for:
//! `('x'||left(encode(sha256(convert_to(NAME,'UTF8')),'hex'),16))::bit(64)::bigint`.

mod distributed_lock;
mod formula;
mod hash;
mod lookup3;
mod phash2;
mod rule;
mod shown;
mod text_hashes;
#[cfg(test)]
mod vectors;

use std::fmt;
use std::str::FromStr;

use serde::Serialize;
use sha2::{Digest, Sha256};

pub use self::distributed_lock::name as name_in_distributed_lock;
pub use self::rule::Rule;
pub use self::shown::ShownKey;
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

/// A descriptive name, alone or in a namespace, and the rule by which it becomes a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockName {
    pub namespace: Option<String>,
    pub name: String,
    pub rule: Rule,
}

/// A lock as the user speaks of it: by name, or by its bare key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lock {
    pub key: LockKey,
    /// `None` for a lock given as `--raw`.
    pub name: Option<LockName>,
}

impl LockName {
    /// The key; why there is none, in words for the user.
    pub fn key(&self) -> Result<LockKey, String> {
        self.rule.key(self.namespace.as_deref(), &self.name)
    }

    /// The database that this lock is for, where a program has one for each.
    pub fn database(&self) -> Option<&str> {
        match self.rule {
            Rule::As(program) if program.is_per_database() => {
                program.values(&self.name).ok()?.first().copied()
            }
            Rule::As(_) | Rule::Hash(_) => None,
        }
    }

    /// Whether `other`, which has the same key, is another lock that it shares the key with by chance.
    ///
    /// By which rule it got there does not matter; what a program's rule gives was meant.
    pub fn collides_with(&self, other: &Self) -> bool {
        match (self.rule, other.rule) {
            (Rule::Hash(_), Rule::Hash(_)) => {
                (&self.namespace, &self.name) != (&other.namespace, &other.name)
            }
            (rule, other_rule) => {
                rule == other_rule && !rule.means_the_same(&self.name, &other.name)
            }
        }
    }
}

impl Lock {
    /// Whether `other`, which has the same key, is another lock that it shares the key with by chance.
    pub fn collides_with(&self, other: &Self) -> bool {
        let names = self.name.as_ref().zip(other.name.as_ref());
        names.is_some_and(|(name, other)| name.collides_with(other))
    }

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
    /// Which of the two forms it has, as `list --json` calls it.
    pub fn form(self) -> &'static str {
        match self {
            Self::Bigint(_) => "bigint",
            Self::Pair(..) => "int4,int4",
        }
    }

    /// The key of one of the slots of a lock that several may hold at once; slot 0 is the lock itself.
    ///
    /// The others' are the first 8 bytes of SHA-256(`pglock slot KEY SLOT`), big-endian; in a namespace they stay
    /// there, and the first 4 are the second int4.
    pub fn slot(self, slot: u32) -> Self {
        let digest = Sha256::digest(format!("pglock slot {self} {slot}"));
        match self {
            _ if slot == 0 => self,
            Self::Bigint(_) => Self::Bigint(big_endian(&digest)),
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

fn big_endian(digest: &[u8]) -> i64 {
    i64::from_be_bytes(leading(digest))
}

fn little_endian(digest: &[u8]) -> i64 {
    i64::from_le_bytes(leading(digest))
}

impl TryFrom<LockName> for Lock {
    type Error = String;

    fn try_from(name: LockName) -> Result<Self, String> {
        Ok(Self {
            key: name.key()?,
            name: Some(name),
        })
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

/// As a person reads it: `nightly-report`, `billing/nightly-report`.
impl fmt::Display for LockName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.namespace {
            None => f.write_str(&self.name),
            Some(namespace) => write!(f, "{namespace}/{}", self.name),
        }
    }
}

/// The same, or `key 42`.
impl fmt::Display for Lock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.name {
            None => write!(f, "key {}", self.key),
            Some(name) => name.fmt(f),
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
            rule: Rule::default(),
        }
        .key()
        .expect("every name has one")
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
