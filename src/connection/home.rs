//! The user's files, where libpq looks for them.

use std::path::PathBuf;

use nix::unistd::{User, geteuid};

/// `name` in the home directory: `HOME`, else the password database's; `None` without either.
pub fn file(name: &str) -> Option<PathBuf> {
    let home = std::env::var_os("HOME").filter(|home| !home.is_empty());
    let home = home
        .map(PathBuf::from)
        .or_else(|| User::from_uid(geteuid()).ok()?.map(|user| user.dir))?;
    Some(home.join(name))
}
