//! A command as a person would type it, free of secrets: other sessions can read it.

use std::ffi::OsStr;

use crate::text::is_deceptive;

/// More than is ever shown of a command.
const LONGEST: usize = 1000;
/// Stands for a secret.
pub const MASK: &str = "***";
const KEYWORD: &str = "password";

/// The words quoted for a shell, with passwords masked: the one in a URI (`scheme://user:PASSWORD@host`), the
/// value of `password=…` or `…PASSWORD=…`, and the word after `--password` or `--…-password`.
///
/// A long command is cut off.
pub fn display(words: &[impl AsRef<OsStr>]) -> String {
    let masked = masked(words);
    shlex::try_join(masked.iter().map(String::as_str)).unwrap_or_default()
}

/// The same, free of what a terminal acts on, to be pasted into a shell.
pub fn to_be_pasted(words: &[impl AsRef<OsStr>]) -> String {
    let words = masked(words);
    let words: Vec<String> = words.iter().map(|text| word(text, true)).collect();
    words.join(" ")
}

/// One word for a shell, quoted only if need be, and free of what a terminal acts on.
pub fn word(text: &str, is_utf8: bool) -> String {
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

fn masked(words: &[impl AsRef<OsStr>]) -> Vec<String> {
    let mut masked: Vec<String> = Vec::new();
    let mut room = LONGEST;
    for word in words {
        let word = word.as_ref().to_string_lossy();
        let word: String = word.chars().take(room).collect();
        room -= word.chars().count();
        let next = mask_after(masked.last().map(String::as_str), &word);
        masked.push(next);
        if room == 0 {
            break;
        }
    }
    masked
}

/// Masks every secret in one of several words, the whole of it where the word before it is an option for a password.
pub fn mask_after(before: Option<&str>, word: &str) -> String {
    let is_password = before
        .is_some_and(|before| is_option(before) && before.to_ascii_lowercase().ends_with(KEYWORD));
    if is_password {
        MASK.to_owned()
    } else {
        mask(word)
    }
}

/// Masks every secret in one word, which may be a shell's whole command string.
pub fn mask(word: &str) -> String {
    let without_uris: String = word
        .split_inclusive(char::is_whitespace)
        .map(mask_uris)
        .collect();
    mask_values(&without_uris)
}

/// Masks generously: everything from the user's colon to the last `@`, so that a password with an unescaped
/// `@`, `/` or `:` in it is covered too. `part` has no blanks within.
fn mask_uris(part: &str) -> String {
    for (scheme, _) in part.match_indices("://") {
        let user = scheme + "://".len();
        let Some(at) = part[user..].rfind('@').map(|at| user + at) else {
            break;
        };
        let colon = part[user..at].find(':').map(|colon| user + colon);
        if let Some(colon) = colon.filter(|colon| !part[user..*colon].contains('/')) {
            return format!("{}{MASK}{}", &part[..=colon], &part[at..]);
        }
    }
    part.to_owned()
}

/// Masks the value after each `password=`, which may have blanks around the sign and be quoted, and the word
/// after each option that ends so.
fn mask_values(text: &str) -> String {
    let lower = text.to_ascii_lowercase();
    let mut masked = String::with_capacity(text.len());
    let mut done = 0;
    for (keyword, _) in lower.match_indices(KEYWORD) {
        let rest = &text[keyword + KEYWORD.len()..];
        let (before, after_blanks) = (&text[..keyword], rest.trim_start());
        let value = match after_blanks.strip_prefix('=') {
            Some(value) => value.trim_start(),
            None if is_option(before) && after_blanks.len() < rest.len() => after_blanks,
            None => continue,
        };
        let start = text.len() - value.len();
        if keyword < done {
            continue;
        }
        let is_assignment = is_name(before) && rest.starts_with('=');
        masked += &text[done..start];
        masked += MASK;
        done = if is_assignment {
            text.len()
        } else {
            start + length_of_value(value)
        };
    }
    masked + &text[done..]
}

/// Whether the word at the end of `text` is an option so far: `--`, `--db-`.
fn is_option(text: &str) -> bool {
    let word = text.rsplit(char::is_whitespace).next().unwrap_or_default();
    word.starts_with('-') && is_name(word)
}

/// Whether a word that begins so is one assignment or option, whose value goes to its end, blanks and all.
fn is_name(text: &str) -> bool {
    text.chars()
        .all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'))
}

/// How long the value at the start of `text` is: up to a blank or `&` outside quotes; a backslash takes the
/// character behind it along.
fn length_of_value(text: &str) -> usize {
    let mut quote = None;
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match (c, quote) {
            ('\\', _) => drop(chars.next()),
            (c, Some(open)) if c == open => quote = None,
            ('\'' | '"', None) => quote = Some(c),
            (c, None) if c == '&' || c.is_whitespace() => return at,
            _ => {}
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_masked() {
        for (word, shown) in [
            ("postgres://u:s3cret@h/db", "'postgres://u:***@h/db'"),
            ("postgres://u:p@ss/w0rd@h/db", "'postgres://u:***@h/db'"),
            (
                "postgres://u@h/db?password=s3cret&x=1",
                "'postgres://u@h/db?password=***&x=1'",
            ),
            (
                "https://x/y?u=postgres://u:s3cret@h",
                "'https://x/y?u=postgres://u:***@h'",
            ),
            ("PGPASSWORD=s3cret psql -h x", "'PGPASSWORD=***'"),
            ("PGPASSWORD=my s3cret", "'PGPASSWORD=***'"),
            (
                "exec env PGPASSWORD=s3cret psql -h x",
                "'exec env PGPASSWORD=*** psql -h x'",
            ),
            (
                "exec env PGPASSWORD=a\"b s3cret\" psql",
                "'exec env PGPASSWORD=*** psql'",
            ),
            (
                "host=h password=s3cret user=u",
                "'host=h password=*** user=u'",
            ),
            (
                r"host=h password = 's3 \'cret' user=u",
                "'host=h password = *** user=u'",
            ),
            (
                "mysql --db-password s3cret x",
                "'mysql --db-password *** x'",
            ),
            (
                "--urls=http://w/,postgres://u:s3cret@d/x",
                "'--urls=http://w/,postgres://u:***@d/x'",
            ),
            ("a password is set", "'a password is set'"),
            ("--password=s3cret", "'--password=***'"),
            ("https://h/a:b@c", "https://h/a:b@c"),
        ] {
            assert_eq!(display(&[word]), shown, "{word}");
        }
        assert_eq!(
            display(&["x", "--password", "s3cret", "y"]),
            "x --password '***' y"
        );
    }

    #[test]
    fn a_command_is_quoted_for_a_shell_and_cut_off_where_it_is_long() {
        assert_eq!(
            display(&["sh", "-c", "echo 'hi'", ""]),
            r#"sh -c "echo 'hi'" ''"#
        );
        assert_eq!(display(&["password".repeat(100_000)]).len(), LONGEST);
    }

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
