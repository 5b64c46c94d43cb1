//! Asking a person for the password: when, and how often.

use std::cell::RefCell;
use std::collections::BTreeMap;

use anyhow::Context as _;

use super::terminal;
use crate::cli::ConnectionArgs;

/// The passwords that are asked for, each role's at most once for all sessions on all servers. There is no Debug.
pub struct Prompt {
    when: When,
    typed: RefCell<BTreeMap<String, Vec<u8>>>,
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
            typed: RefCell::default(),
        }
    }

    /// What was typed, as it is; an empty line is no password.
    pub fn typed(&self, user: &str) -> Option<Vec<u8>> {
        let typed = self.typed.borrow().get(user).cloned();
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
        if matches!(self.when, When::Never) || self.typed.borrow().contains_key(user) {
            return Ok(false);
        }
        let prompt = format!("Password for user {}: ", crate::text::printable(user));
        let typed = terminal::read_unseen(&prompt).await;
        let typed = typed.context("asking for the password on the terminal")?;
        let Some(typed) = typed else {
            return Ok(false);
        };
        self.typed.borrow_mut().insert(user.to_owned(), typed);
        Ok(true)
    }
}
