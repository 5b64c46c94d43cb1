//! Text from elsewhere made fit for one line of a terminal, and free of secrets.

/// Escapes what could move a terminal's cursor, change its state or hide text: control characters
/// (including newlines) and Unicode's invisible direction marks.
pub fn printable(text: &str) -> String {
    text.chars()
        .fold(String::with_capacity(text.len()), |mut out, c| {
            if c.is_control() || is_direction_mark(c) {
                out.extend(c.escape_default());
            } else {
                out.push(c);
            }
            out
        })
}

/// Bidirectional formatting characters (Unicode Standard Annex 9), which reorder what is displayed.
fn is_direction_mark(c: char) -> bool {
    matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// The command line as a person would type it, with passwords masked: the one in a URI
/// (`scheme://user:PASSWORD@host`), the value of `password=…` or `…PASSWORD=…`, and the word after `--password`.
pub fn command_line(words: &[impl AsRef<std::ffi::OsStr>]) -> String {
    let mut masked: Vec<String> = Vec::with_capacity(words.len());
    for word in words {
        let word = word.as_ref().to_string_lossy().replace('\0', "");
        masked.push(match masked.last().map(String::as_str) {
            Some("--password") => MASK.to_owned(),
            _ => mask_secrets(&word),
        });
    }
    shlex::try_join(masked.iter().map(String::as_str)).unwrap_or_default()
}

const MASK: &str = "***";

/// Masks every secret in one word, which may be a shell's whole command string.
fn mask_secrets(word: &str) -> String {
    let masked: String = word
        .split_inclusive(char::is_whitespace)
        .map(|part| mask_uri(part).unwrap_or_else(|| part.to_owned()))
        .collect();
    mask_values(&masked)
}

/// Masks the value after each `password=`, which may have blanks around the sign and be quoted.
fn mask_values(text: &str) -> String {
    let Some(found) = text.to_ascii_lowercase().find("password") else {
        return text.to_owned();
    };
    let (before, rest) = text.split_at(found + "password".len());
    let Some(value) = rest.trim_start().strip_prefix('=').map(str::trim_start) else {
        return format!("{before}{}", mask_values(rest));
    };
    let sign = &rest[..rest.len() - value.len()];
    if is_name(before) && sign == "=" {
        return format!("{before}{sign}{MASK}");
    }
    let after = mask_values(&value[end_of_value(value)..]);
    format!("{before}{sign}{MASK}{after}")
}

/// Whether a word that begins so is one assignment or option, whose value goes to its end, blanks and all.
fn is_name(text: &str) -> bool {
    text.chars()
        .all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'))
}

/// Where the value at the start of `text` ends: after its closing quote, or before a blank or `&`; a backslash
/// takes the character behind it along.
fn end_of_value(text: &str) -> usize {
    let quote = text.chars().next().filter(|c| matches!(c, '\'' | '"'));
    let mut chars = text.char_indices().skip(usize::from(quote.is_some()));
    while let Some((at, c)) = chars.next() {
        match (c, quote) {
            ('\\', _) => drop(chars.next()),
            (c, Some(quote)) if c == quote => return at + c.len_utf8(),
            (c, None) if c == '&' || c.is_whitespace() => return at,
            _ => {}
        }
    }
    text.len()
}

/// Masks generously: everything from the user's colon to the last `@`, so that a password with an
/// unescaped `@` or `/` in it is covered too.
fn mask_uri(part: &str) -> Option<String> {
    let user = part.find("://")? + "://".len();
    let at = user + part[user..].rfind('@')?;
    let colon = user + part[user..at].find(':')?;
    let names_a_user = !part[user..colon].contains('/');
    names_a_user.then(|| format!("{}{MASK}{}", &part[..=colon], &part[at..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_and_direction_characters_are_escaped() {
        assert_eq!(
            printable("a\x1b[2Jb\nc\u{202e}d é"),
            "a\\u{1b}[2Jb\\nc\\u{202e}d é"
        );
    }

    #[test]
    fn passwords_in_a_command_are_masked() {
        let shown = |word: &str| command_line(&[word]);
        assert_eq!(shown("postgres://u:s3cret@h/db"), "'postgres://u:***@h/db'");
        assert_eq!(
            shown("postgres://u:p@ss/w0rd@h/db"),
            "'postgres://u:***@h/db'"
        );
        assert_eq!(
            shown("postgres://u@h/db?password=s3cret&x=1"),
            "'postgres://u@h/db?password=***&x=1'"
        );
        assert_eq!(shown("PGPASSWORD=s3cret psql -h x"), "'PGPASSWORD=***'");
        assert_eq!(
            shown("exec env PGPASSWORD=s3cret psql -h x"),
            "'exec env PGPASSWORD=*** psql -h x'"
        );
        assert_eq!(shown("PGPASSWORD=my s3cret"), "'PGPASSWORD=***'");
        assert_eq!(
            command_line(&["x", "--password", "s3cret", "y"]),
            "x --password '***' y"
        );
        assert_eq!(
            shown("host=h password=s3cret user=u"),
            "'host=h password=*** user=u'"
        );
        assert_eq!(
            shown(r"host=h password = 's3 \'cret' user=u"),
            "'host=h password = *** user=u'"
        );
        assert_eq!(shown("a password is set"), "'a password is set'");
        assert_eq!(shown("--password=s3cret"), "'--password=***'");
        assert_eq!(shown("https://h/a:b@c"), "https://h/a:b@c");
    }

    #[test]
    fn a_command_line_is_quoted_for_a_shell() {
        assert_eq!(
            command_line(&["sh", "-c", "echo 'hi'", ""]),
            r#"sh -c "echo 'hi'" ''"#
        );
    }
}
