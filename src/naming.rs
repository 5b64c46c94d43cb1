//! How a NAME on the command line is read: as it is, in a namespace, or as the key itself.

use crate::cli::NamingArgs;
use crate::environment;
use crate::exit::Fault;
use crate::key::{Lock, LockName};

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
            None => Ok(match environment::variable("PGLOCK_NAMESPACE")? {
                Some(namespace) => Self::Namespaced(namespace),
                None => Self::Plain,
            }),
        }
    }

    pub fn namespace(&self) -> Option<&str> {
        match self {
            Self::Namespaced(namespace) => Some(namespace),
            Self::Plain | Self::Raw => None,
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::LockKey;

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
