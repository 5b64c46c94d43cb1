//! A lock's name as it is typed after `pglock list` or `pglock release`.

use crate::inventory::LockView;
use crate::key::{LockKey, ShownKey};
use crate::text::is_deceptive;

/// The words for a shell: `nightly`, `'two words'`, `-N billing nightly`, and which slot of how many it is: `(0/3)`.
/// Where the name is unknown, the program that is known to own such a key, in parentheses, or `None`.
pub fn words(view: &LockView, is_utf8: bool) -> Option<String> {
    let Some(name) = &view.name else {
        return view.program.as_ref().map(|program| format!("({program})"));
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
    let words = words(view, is_utf8);
    if view.name.is_some() {
        return words.unwrap_or_default();
    }
    let options = match view.key {
        ShownKey::Lock(LockKey::Pair(first, _)) if first < 0 => "--raw -- ",
        ShownKey::Lock(LockKey::Bigint(_) | LockKey::Pair(..)) => "--raw ",
        ShownKey::Extension(..) => "",
    };
    let program = words.map(|program| format!(" {program}"));
    format!("{options}{}{}", view.key, program.unwrap_or_default())
}

/// A waiter has none yet.
fn slot(view: &LockView) -> String {
    let slot = view.slot.map_or("?".to_owned(), |slot| slot.to_string());
    let slots = view.slots.map(|slots| format!(" ({slot}/{slots})"));
    slots.unwrap_or_default()
}

/// One word for a shell, quoted only if need be, and free of what a terminal acts on.
fn word(text: &str, is_utf8: bool) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "+-./:@_".contains(c);
    let is_shown = |c: char| !is_deceptive(c) && (is_utf8 || c.is_ascii());
    if !text.chars().all(is_shown) {
        ansi_c_quoted(text, is_shown)
    } else if text.chars().all(is_plain) {
        text.to_owned()
    } else {
        // It refuses NUL alone, which is not shown.
        shlex::try_quote(text).unwrap_or_default().into_owned()
    }
}

/// `$'…'`, which bash, zsh, ksh and POSIX.1-2024 know: other characters by their bytes.
fn ansi_c_quoted(text: &str, is_shown: impl Fn(char) -> bool) -> String {
    let mut quoted = "$'".to_owned();
    for c in text.chars() {
        match c {
            '\n' => quoted += "\\n",
            '\t' => quoted += "\\t",
            '\r' => quoted += "\\r",
            '\'' | '\\' => quoted.extend(['\\', c]),
            c if is_shown(c) => quoted.push(c),
            c => {
                let mut bytes = [0; 4];
                let bytes = c.encode_utf8(&mut bytes).bytes();
                quoted.extend(bytes.map(|byte| format!("\\x{byte:02x}")));
            }
        }
    }
    quoted + "'"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_quoted_only_where_a_shell_or_a_terminal_would_not_take_it() {
        for (text, in_utf8, in_ascii) in [
            ("nightly-report", "nightly-report", "nightly-report"),
            ("a/b", "a/b", "a/b"),
            ("two words", "'two words'", "'two words'"),
            ("it's", "\"it's\"", "\"it's\""),
            ("é漢", "é漢", "$'\\xc3\\xa9\\xe6\\xbc\\xa2'"),
            ("é b", "'é b'", "$'\\xc3\\xa9 b'"),
            (
                "a\nb\x1b'\\",
                "$'a\\nb\\x1b\\'\\\\'",
                "$'a\\nb\\x1b\\'\\\\'",
            ),
            ("\u{202e}x", "$'\\xe2\\x80\\xaex'", "$'\\xe2\\x80\\xaex'"),
        ] {
            assert_eq!([word(text, true), word(text, false)], [in_utf8, in_ascii]);
        }
    }
}
