//! Parameters taken one by one, each as the kind of value that it is.

use super::conninfo::Parameters;
use crate::exit::Fault;

/// Parameters on their way to being settings; an empty value counts as not given, as in libpq.
pub struct Given(Parameters);

impl Given {
    pub fn of(parameters: Parameters) -> Self {
        Self(parameters)
    }

    pub fn text(&mut self, name: &'static str) -> Option<String> {
        self.0.remove(name).filter(|value| !value.is_empty())
    }

    /// One of libpq's fixed words; an empty one is none of them.
    pub fn choice<T: Copy>(
        &mut self,
        name: &'static str,
        words: &[(&str, T)],
        default: T,
    ) -> anyhow::Result<T> {
        let Some(value) = self.0.remove(name) else {
            return Ok(default);
        };
        let found = words.iter().find(|(word, _)| *word == value);
        found.map(|(_, meaning)| *meaning).ok_or_else(|| {
            let words: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
            invalid(name, &words.join(", "))
        })
    }

    /// A whole number, with blanks around it if need be.
    pub fn number(&mut self, name: &'static str) -> anyhow::Result<Option<i32>> {
        let Some(value) = self.0.remove(name) else {
            return Ok(None);
        };
        let number = value.trim().parse();
        number
            .map(Some)
            .map_err(|_| invalid(name, "a whole number"))
    }
}

/// The value is not quoted: behind an unescaped `/` or `@` it may be a part of a password.
pub fn invalid(name: &str, wanted: &str) -> anyhow::Error {
    Fault::Usage.error(format!("invalid {name}: {wanted}"))
}
