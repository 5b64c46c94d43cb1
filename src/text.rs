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
/// (`scheme://user:PASSWORD@host`) and the value of a word `password=…` or `…PASSWORD=…`.
pub fn command_line(words: &[impl AsRef<std::ffi::OsStr>]) -> String {
    let masked: Vec<String> = words
        .iter()
        .map(|word| mask_secrets(&word.as_ref().to_string_lossy()).replace('\0', ""))
        .collect();
    shlex::try_join(masked.iter().map(String::as_str)).unwrap_or_default()
}

const MASK: &str = "***";

/// Masks the secrets in one word, or in each blank-separated part of a shell's command string.
fn mask_secrets(word: &str) -> String {
    word.split_inclusive(char::is_whitespace)
        .map(mask_secret)
        .collect()
}

fn mask_secret(part: &str) -> String {
    if let Some(masked) = mask_uri(part) {
        return masked;
    }
    let lower = part.to_ascii_lowercase();
    let Some(found) = lower.find("password=") else {
        return part.to_owned();
    };
    let value = found + "password=".len();
    let rest = &part[value..];
    let end = rest
        .find(|c: char| c == '&' || c.is_whitespace())
        .unwrap_or(rest.len());
    format!("{}{MASK}{}", &part[..value], mask_secret(&rest[end..]))
}

/// Masks generously: everything from the user's colon to the last `@`, so that a password with an
/// unescaped `@` or `/` in it is covered too.
fn mask_uri(part: &str) -> Option<String> {
    let user = part.find("://")? + "://".len();
    let at = user + part[user..].rfind('@')?;
    let colon = user + part[user..at].find(':')?;
    let names_a_user = !part[user..colon].contains('/');
    names_a_user.then(|| format!("{}{MASK}{}", &part[..=colon], mask_secret(&part[at..])))
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
        assert_eq!(
            shown("PGPASSWORD=s3cret psql -h x"),
            "'PGPASSWORD=*** psql -h x'"
        );
        assert_eq!(
            shown("host=h password=s3cret user=u"),
            "'host=h password=*** user=u'"
        );
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
