//! Different names that share one key, and so exclude one another by chance.

use std::collections::HashMap;

use super::view::LockView;
use crate::key::{Lock, LockName, ShownKey};

impl LockView {
    /// Who holds `lock`, in a sentence; under another name of the holder's, if it has one for that key.
    pub fn describe_as(&self, lock: &Lock) -> String {
        let names = lock.name.as_ref().zip(self.lock_name.as_ref());
        match names.filter(|(ours, theirs)| ours.collides_with(theirs)) {
            Some((_, theirs)) => {
                format!(
                    "{lock} shares its key with {theirs}, held by {}",
                    self.describe()
                )
            }
            None => format!("{lock} is held by {}", self.describe()),
        }
    }
}

/// A line for each pair of names that share a key of one database.
pub fn collisions(views: &[LockView]) -> Vec<String> {
    let mut names: HashMap<(Option<&str>, ShownKey), Vec<&LockName>> = HashMap::new();
    let mut found = Vec::new();
    for view in views {
        let Some(name) = &view.lock_name else {
            continue;
        };
        let others = names
            .entry((view.database.as_deref(), view.key))
            .or_default();
        if others.contains(&name) {
            continue;
        }
        let colliding = others.iter().filter(|other| other.collides_with(name));
        found.extend(colliding.map(|other| format!("{other} and {name} share key {}", view.key)));
        others.push(name);
    }
    found
}
