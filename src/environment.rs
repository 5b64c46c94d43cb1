//! pglock's own environment variables, read as text.

use std::env::{self, VarError};

use crate::exit::Fault;

/// The value of a variable; an empty one counts as unset, as in libpq. One that is no UTF-8 is a usage error.
pub fn variable(name: &str) -> anyhow::Result<Option<String>> {
    match env::var(name) {
        Ok(value) => Ok(Some(value).filter(|value| !value.is_empty())),
        Err(VarError::NotPresent) => Ok(None),
        Err(VarError::NotUnicode(_)) => {
            Err(Fault::Usage.error(format!("{name} is not valid UTF-8")))
        }
    }
}
