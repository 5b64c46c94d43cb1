//! A key as the server's lock table shows it.

use std::fmt;

use super::LockKey;

/// The key of a lock that SQL can take, or of one that only the code of an extension can.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ShownKey {
    Lock(LockKey),
    /// Two numbers of the extension's, and its tag, with which no function of PostgreSQL locks: the fields of the lock tag
    /// (postgres, src/include/storage/lock.h), `classid`, `objid` and `objsubid` in `pg_locks`.
    Extension(u32, u32, u16),
}

impl ShownKey {
    /// Which form it has, as `list --json` calls it.
    pub fn form(self) -> &'static str {
        match self {
            Self::Lock(key) => key.form(),
            Self::Extension(..) => "extension",
        }
    }

    /// The key that SQL has for it.
    pub fn in_sql(self) -> Option<LockKey> {
        match self {
            Self::Lock(key) => Some(key),
            Self::Extension(..) => None,
        }
    }
}

impl From<LockKey> for ShownKey {
    fn from(key: LockKey) -> Self {
        Self::Lock(key)
    }
}

impl PartialEq<LockKey> for ShownKey {
    fn eq(&self, key: &LockKey) -> bool {
        self.in_sql() == Some(*key)
    }
}

impl fmt::Display for ShownKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lock(key) => key.fmt(f),
            Self::Extension(first, second, tag) => write!(f, "{first},{second}/{tag}"),
        }
    }
}
