//! What the pglocks hold that run this process, as its environment tells.

use std::fmt;
use std::str::FromStr;

use crate::key::LockKey;

/// A key, and the backend that holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holding {
    pub key: LockKey,
    pub backend_pid: i32,
}

/// The variable that passes them on, outermost first, separated by blanks.
pub const VARIABLE: &str = "PGLOCK_HELD";

impl Holding {
    /// Those of the environment; what cannot be read is left out.
    pub fn above() -> Vec<Self> {
        let told = std::env::var(VARIABLE).unwrap_or_default();
        let told = told.split_ascii_whitespace();
        let holdings = told.filter_map(|holding| holding.parse().ok());
        holdings.collect()
    }
}

impl fmt::Display for Holding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.key, self.backend_pid)
    }
}

impl FromStr for Holding {
    type Err = anyhow::Error;

    fn from_str(told: &str) -> anyhow::Result<Self> {
        let (key, backend_pid) = told.split_once('@').unwrap_or_default();
        Ok(Self {
            key: key.parse()?,
            backend_pid: backend_pid.parse()?,
        })
    }
}
