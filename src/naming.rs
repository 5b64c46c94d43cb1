//! How a NAME on the command line is read: as it is, in a namespace, or as the key itself.

use crate::catalogue::{PROGRAMS, Program, SCHEMES, Scheme};
use crate::cli::NamingArgs;
use crate::environment;
use crate::exit::Fault;
use crate::key::{Lock, LockName, Rule};
use crate::text::printable;

/// How NAMEs are to be read, resolved from the arguments and the environment.
#[derive(Debug)]
pub enum Naming {
    Named {
        namespace: Option<String>,
        rule: Rule,
    },
    Raw,
}

impl Naming {
    /// Whether names are read as pglock's own.
    pub fn is_of_pglock(&self) -> bool {
        match self {
            Self::Named { rule, .. } => rule.is_own(),
            Self::Raw => false,
        }
    }

    /// `--raw` and `--as` know no namespace; else it is `--namespace`, else `PGLOCK_NAMESPACE` (empty means unset).
    pub fn resolve(args: &NamingArgs) -> anyhow::Result<Self> {
        if args.raw {
            return Ok(Self::Raw);
        }
        if let Some(word) = &args.program {
            let program = Program::of(word).ok_or_else(|| unknown("--as", word, programs()));
            return Ok(Self::Named {
                namespace: None,
                rule: Rule::As(program?),
            });
        }
        let namespace = match &args.namespace {
            Some(namespace) if namespace.is_empty() => {
                return Err(Fault::Usage.error("the namespace is empty"));
            }
            Some(namespace) => Some(namespace.clone()),
            None => environment::variable("PGLOCK_NAMESPACE")?,
        };
        let rule = match &args.hash {
            None => Rule::default(),
            Some(word) => {
                let scheme = Scheme::of(word).ok_or_else(|| unknown("--hash", word, schemes()));
                Rule::Hash(scheme?)
            }
        };
        Ok(Self::Named { namespace, rule })
    }

    pub fn namespace(&self) -> Option<&str> {
        match self {
            Self::Named { namespace, .. } => namespace.as_deref(),
            Self::Raw => None,
        }
    }

    /// The first key of every lock in `namespace`.
    pub fn class(&self, namespace: &str) -> anyhow::Result<i32> {
        let class = match self {
            Self::Named { rule, .. } => rule.namespace_key(namespace),
            Self::Raw => None,
        };
        class.ok_or_else(|| Fault::Usage.error("such keys have no namespaces"))
    }

    /// The lock that `typed` means.
    ///
    /// An empty name, one that its rule has no key for and a raw key that is out of range are usage errors.
    pub fn lock(&self, typed: &str) -> anyhow::Result<Lock> {
        if typed.is_empty() {
            return Err(Fault::Usage.error("the lock's name is empty"));
        }
        match self {
            Self::Named { namespace, rule } => {
                let name = LockName {
                    namespace: namespace.clone(),
                    name: typed.to_owned(),
                    rule: *rule,
                };
                name.try_into()
                    .map_err(|why: String| Fault::Usage.error(why))
            }
            Self::Raw => Ok(Lock {
                key: typed.parse()?,
                name: None,
            }),
        }
    }
}

fn schemes() -> impl Iterator<Item = &'static str> {
    SCHEMES.iter().map(|scheme| scheme.word)
}

fn programs() -> impl Iterator<Item = &'static str> {
    PROGRAMS.iter().filter_map(|program| program.word)
}

/// A usage error that names what was perhaps meant.
fn unknown(option: &str, typed: &str, words: impl Iterator<Item = &'static str>) -> anyhow::Error {
    let parts = |word: &str| word.split('-').map(str::to_lowercase).collect::<Vec<_>>();
    let wanted = parts(typed);
    let similar = |word: &&str| parts(word).iter().any(|part| wanted.contains(part));
    let similar: Vec<&str> = words.filter(similar).collect();
    let perhaps = if similar.is_empty() {
        String::new()
    } else {
        format!("; perhaps {}", similar.join(", "))
    };
    Fault::Usage.error(format!(
        "{option} does not know '{}'{perhaps}; pglock(1) lists all",
        printable(typed)
    ))
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
