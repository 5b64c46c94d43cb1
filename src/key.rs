//! From a NAME to the key of its lock.
//!
//! The key is computed here, never by the server. In SQL the same:
//! `('x'||left(encode(sha256(convert_to(NAME,'UTF8')),'hex'),16))::bit(64)::bigint`.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;
use sha2::{Digest, Sha256};

use crate::cli::NamingArgs;
use crate::exit::Fault;

/// The key of an advisory lock in one of its two forms, which never conflict with one another
/// (PostgreSQL documentation, 9.28.10 "Advisory Lock Functions").
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
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

/// How NAMEs are to be read, resolved from the arguments and the environment.
#[derive(Debug)]
pub enum Naming {
    Plain,
    Namespaced(String),
    Raw,
}

impl Naming {
    /// `--raw`, else `--namespace`, else `PGLOCK_NAMESPACE` (empty means unset).
    pub fn resolve(args: &NamingArgs) -> anyhow::Result<Self> {
        if args.raw {
            return Ok(Self::Raw);
        }
        match &args.namespace {
            Some(namespace) if namespace.is_empty() => {
                Err(Fault::Usage.error("the namespace is empty"))
            }
            Some(namespace) => Ok(Self::Namespaced(namespace.clone())),
            None => Self::from_environment(),
        }
    }

    fn from_environment() -> anyhow::Result<Self> {
        match std::env::var("PGLOCK_NAMESPACE") {
            Ok(namespace) if !namespace.is_empty() => Ok(Self::Namespaced(namespace)),
            Ok(_) | Err(std::env::VarError::NotPresent) => Ok(Self::Plain),
            Err(std::env::VarError::NotUnicode(_)) => {
                Err(Fault::Usage.error("PGLOCK_NAMESPACE is not valid UTF-8"))
            }
        }
    }

    /// The lock that `typed` means.
    ///
    /// An empty name and a raw key that is out of range are usage errors.
    pub fn lock(&self, typed: &str) -> anyhow::Result<Lock> {
        if typed.is_empty() {
            return Err(Fault::Usage.error("the lock's name is empty"));
        }
        let named = |namespace: Option<&String>| LockName {
            namespace: namespace.cloned(),
            name: typed.to_owned(),
        };
        match self {
            Self::Plain => Ok(named(None).into()),
            Self::Namespaced(namespace) => Ok(named(Some(namespace)).into()),
            Self::Raw => Ok(Lock {
                key: typed.parse()?,
                name: None,
            }),
        }
    }
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

    #[test]
    fn raw_keys_are_exact_and_in_range() {
        let raw = |typed| Naming::Raw.lock(typed).map(|lock| lock.key).ok();
        assert_eq!(raw("-9223372036854775808"), Some(LockKey::Bigint(i64::MIN)));
        assert_eq!(raw("9223372036854775807"), Some(LockKey::Bigint(i64::MAX)));
        assert_eq!(raw("-1,5"), Some(LockKey::Pair(-1, 5)));
        for bad in [
            "",
            "9223372036854775808",
            "1,2147483648",
            "1,2,3",
            "0x2a",
            " 1",
            "1 ,2",
        ] {
            assert_eq!(raw(bad), None, "{bad}");
        }
    }
}
