//! The password file (PostgreSQL documentation, 34.16).

use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::report;

/// What a line must match.
#[derive(Clone, Copy, Debug)]
pub struct Target<'a> {
    /// As the user gave it; `localhost` for the default Unix socket.
    pub host: &'a str,
    pub port: u16,
    pub database: &'a str,
    pub user: &'a str,
}

/// The password of the first line that matches; none if that line has none.
///
/// A file that cannot be read gives none; one that others may read is warned about and ignored.
pub fn find(file: &Path, target: Target<'_>) -> Option<String> {
    let metadata = fs::metadata(file).ok()?;
    if let Some(complaint) = complaint(&metadata) {
        report::line(&format!(
            "warning: password file \"{}\" {complaint}",
            file.display()
        ));
        return None;
    }
    let text = fs::read(file).ok()?;
    let first = String::from_utf8_lossy(&text)
        .lines()
        .find_map(|line| password(line, target));
    first.filter(|password| !password.is_empty())
}

/// What libpq checks before it trusts the file.
fn complaint(metadata: &Metadata) -> Option<&'static str> {
    if !metadata.is_file() {
        return Some("is not a plain file");
    }
    let open_to_others = metadata.mode() & 0o077 != 0;
    open_to_others.then_some("has group or world access; permissions should be u=rw (0600) or less")
}

/// The password of `host:port:database:user:password` if the line is meant for `target`.
fn password(line: &str, target: Target<'_>) -> Option<String> {
    if line.starts_with('#') {
        return None;
    }
    let port = target.port.to_string();
    let mut rest = line.trim_end_matches('\r');
    for wanted in [target.host, &port, target.database, target.user] {
        let (field, after) = field(rest)?;
        if rest.get(..rest.len() - after.len()) != Some("*:") && field != wanted {
            return None;
        }
        rest = after;
    }
    let mut password = String::with_capacity(rest.len());
    let mut chars = rest.chars();
    while let Some(c) = chars.next() {
        match c {
            ':' => break,
            '\\' => password.extend(chars.next()),
            c => password.push(c),
        }
    }
    Some(password)
}

/// The field at the start of `text`, unescaped, and what follows its colon.
fn field(text: &str) -> Option<(String, &str)> {
    let mut field = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            ':' => return Some((field, &text[at + 1..])),
            '\\' => field.extend(chars.next().map(|(_, escaped)| escaped)),
            c => field.push(c),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::super::fuzz;
    use super::*;

    const TARGET: Target<'_> = Target {
        host: "::1",
        port: 5432,
        database: "a:b",
        user: r"c\d",
    };

    #[test]
    fn fields_match_literally_or_by_a_lone_asterisk() {
        let found = |line| password(line, TARGET);
        assert_eq!(found(r"\:\:1:5432:a\:b:c\\d:pass").as_deref(), Some("pass"));
        assert_eq!(found(r"*:*:*:*:p\:a\\ss").as_deref(), Some(r"p:a\ss"));
        assert_eq!(found("*:*:*:*:").as_deref(), Some(""));
        assert_eq!(found("*:*:*:*:with blank ").as_deref(), Some("with blank "));
        for other in ["#*:*:*:*:x", "*:5433:*:*:x", "*:*:*:x", "", r"\*:*:*:*:x"] {
            assert_eq!(found(other), None, "{other}");
        }
    }

    #[test]
    fn fuzzed_lines_are_read_and_escaped_passwords_come_back() {
        const CORPUS: &str = include_str!("../../tests/corpus/password_file.json");
        const PIECES: [&str; 13] = [
            "*",
            ":",
            "::",
            "\\",
            "#",
            " ",
            "\r",
            "5432",
            "*:*:*:*:",
            "s3cret",
            "localhost",
            "a\\:b",
            "é",
        ];
        fuzz::each(CORPUS, &PIECES, |text| {
            for target in [
                TARGET,
                Target {
                    host: text,
                    user: text,
                    ..TARGET
                },
            ] {
                password(text, target);
            }
            let escaped = text.replace('\\', r"\\").replace(':', r"\:");
            let target = Target {
                database: text,
                user: text,
                ..TARGET
            };
            let line = format!("*:5432:{escaped}:{escaped}:{escaped}");
            // The end of a line as on Windows is no part of it.
            let expected = text.trim_end_matches('\r');
            assert_eq!(password(&line, target).as_deref(), Some(expected), "{line}");
        });
    }
}
