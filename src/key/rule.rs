//! By which rule a NAME becomes a key: a scheme of `--hash`, or a program of `--as`.

use super::{LockKey, hash};
use crate::catalogue::{Hash, Program, SCHEMES, Scheme};

/// pglock's own rule unless another was asked for.
#[derive(Clone, Copy, Debug)]
pub enum Rule {
    Hash(&'static Scheme),
    As(&'static Program),
}

impl Default for Rule {
    fn default() -> Self {
        Self::Hash(&SCHEMES[0])
    }
}

/// Two rules are one if they go by the same word.
impl PartialEq for Rule {
    fn eq(&self, other: &Self) -> bool {
        self.word() == other.word()
    }
}

impl Eq for Rule {}

impl Rule {
    /// The rule that is called so, on the command line and in what sessions tell.
    pub fn of(word: &str) -> Option<Self> {
        let scheme = Scheme::of(word).map(Self::Hash);
        scheme.or_else(|| Program::of(word).map(Self::As))
    }

    /// What [`Rule::of`] reads.
    pub fn word(self) -> &'static str {
        match self {
            Self::Hash(scheme) => scheme.word,
            Self::As(program) => program.word.unwrap_or(program.title),
        }
    }

    /// The options that ask for it.
    pub fn options(self) -> Vec<&'static str> {
        match self {
            _ if self.is_own() => Vec::new(),
            Self::Hash(_) => vec!["--hash", self.word()],
            Self::As(_) => vec!["--as", self.word()],
        }
    }

    pub fn is_own(self) -> bool {
        self == Self::default()
    }

    /// The key; why there is none, in words for the user.
    pub fn key(self, namespace: Option<&str>, name: &str) -> Result<LockKey, String> {
        match self {
            Self::Hash(scheme) => hash::key(scheme.hash, namespace, name).ok_or_else(|| {
                format!(
                    "--hash {} has no keys in a namespace (--namespace, PGLOCK_NAMESPACE)",
                    scheme.word
                )
            }),
            Self::As(program) => program.key(name),
        }
    }

    /// The first key of every lock in `namespace`, where there are such.
    pub fn namespace_key(self, namespace: &str) -> Option<i32> {
        match self {
            Self::Hash(scheme) if scheme.hash == Hash::Heimdall => {
                hash::half(Hash::Fnv1x32, namespace)
            }
            Self::Hash(scheme) => hash::half(scheme.hash, namespace),
            Self::As(_) => None,
        }
    }

    /// Whether both names, which have one key, are meant to: a label says nothing of the lock, and what is left out
    /// is the program's default.
    pub fn means_the_same(self, name: &str, other: &str) -> bool {
        match self {
            Self::Hash(_) => name == other,
            Self::As(program) => program.values(name) == program.values(other),
        }
    }
}
