//! Asking a person for the password: when, and how often.

use std::cell::OnceCell;

use anyhow::Context as _;

use super::terminal;
use crate::cli::ConnectionArgs;

/// The password that is asked for, at most once for all sessions. There is no Debug.
pub struct Prompt {
    when: When,
    typed: OnceCell<Vec<u8>>,
}

/// psql's rules (its manual page on `-w` and `-W`).
enum When {
    Never,
    /// When the server wants one, and none is known.
    Wanted,
    /// Before connecting.
    Always,
}

impl Prompt {
    pub fn resolve(args: &ConnectionArgs) -> Self {
        let when = match (args.no_password, args.password) {
            (true, _) => When::Never,
            (false, true) => When::Always,
            (false, false) => When::Wanted,
        };
        Self {
            when,
            typed: OnceCell::new(),
        }
    }

    /// What was typed, for every host, as it is; an empty line is no password.
    pub fn typed(&self) -> Option<&[u8]> {
        let typed = self.typed.get().map(Vec::as_slice);
        typed.filter(|password| !password.is_empty())
    }

    pub async fn ask_if_forced(&self, user: &str) -> anyhow::Result<()> {
        match self.when {
            When::Always => self.ask(user).await.map(drop),
            When::Never | When::Wanted => Ok(()),
        }
    }

    /// Asks unless that was done, is forbidden, or there is no terminal: whether something was typed now.
    ///
    /// Dropped before it is done, it leaves the terminal as it was.
    pub async fn ask(&self, user: &str) -> anyhow::Result<bool> {
        if self.typed.get().is_some() || matches!(self.when, When::Never) {
            return Ok(false);
        }
        let prompt = format!("Password for user {}: ", crate::text::printable(user));
        let typed = terminal::read_unseen(&prompt).await;
        let typed = typed.context("asking for the password on the terminal")?;
        Ok(typed.is_some_and(|typed| self.typed.set(typed).is_ok()))
    }
}
