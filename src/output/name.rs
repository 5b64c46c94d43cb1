//! A lock's name as it is typed after `pglock list` or `pglock release`.

use crate::command_line::word;
use crate::inventory::LockView;
use crate::key::{LockKey, ShownKey};

/// The words for a shell: `nightly`, `'two words'`, `-N billing nightly`, and which slot of how many it is: `(0/3)`.
/// Where the name is unknown, the program that is known to own such a key, in parentheses, or `None`.
pub fn words(view: &LockView, is_utf8: bool) -> Option<String> {
    let Some(name) = &view.name else {
        // A pglock that names nothing was given the key itself, or its name is not to be seen here.
        let is_pglock = view.wrapper_pid.is_some();
        let program = || Some(format!("({})", view.program.as_ref()?));
        return is_pglock.then(|| raw(view)).or_else(program);
    };
    let namespace = view.namespace.as_ref().map(|namespace| {
        // A value that begins like an option is none.
        let option = if namespace.starts_with('-') {
            "--namespace="
        } else {
            "-N "
        };
        format!("{option}{} ", word(namespace, is_utf8))
    });
    let rule = view.lock_name.iter().flat_map(|name| name.rule.options());
    let rule: String = rule.flat_map(|word| [word, " "]).collect();
    let end_of_options = if name.starts_with('-') { "-- " } else { "" };
    let namespace = namespace.unwrap_or_default();
    let slot = slot(view);
    Some(format!(
        "{rule}{namespace}{end_of_options}{}{slot}",
        word(name, is_utf8)
    ))
}

/// The same for a lock whose key is shown nowhere else: unnamed, it is `--raw KEY`, or KEY where it cannot be typed.
pub fn words_or_key(view: &LockView, is_utf8: bool) -> String {
    if view.name.is_some() {
        return words(view, is_utf8).unwrap_or_default();
    }
    let program = view.program.as_ref();
    let program = program.map(|program| format!(" ({program})"));
    raw(view) + &program.unwrap_or_default()
}

fn raw(view: &LockView) -> String {
    let options = match view.key {
        ShownKey::Lock(LockKey::Pair(first, _)) if first < 0 => "--raw -- ",
        ShownKey::Lock(LockKey::Bigint(_) | LockKey::Pair(..)) => "--raw ",
        ShownKey::Extension(..) => "",
    };
    format!("{options}{}{}", view.key, slot(view))
}

/// A waiter has none yet.
fn slot(view: &LockView) -> String {
    let slot = view.slot.map_or("?".to_owned(), |slot| slot.to_string());
    let slots = view.slots.map(|slots| format!(" ({slot}/{slots})"));
    slots.unwrap_or_default()
}
