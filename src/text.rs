//! Text from elsewhere made fit for one line of a terminal.

use std::io;

use nix::errno::Errno;

/// Escapes what could move a terminal's cursor, change its state or reorder text: control characters
/// (including newlines) and some of Unicode's invisible ones.
pub fn printable(text: &str) -> String {
    text.chars()
        .fold(String::with_capacity(text.len()), |mut out, c| {
            if is_deceptive(c) {
                out.extend(c.escape_default());
            } else {
                out.push(c);
            }
            out
        })
}

/// What a terminal may act on or not show.
pub fn is_deceptive(c: char) -> bool {
    c.is_control() || is_invisible(c)
}

/// Marks and controls of direction, which reorder what is displayed (Unicode Standard Annex 9), the blanks, joiners and
/// operators without a width around them, and the byte order mark; not combining characters, tags and variation selectors.
fn is_invisible(c: char) -> bool {
    matches!(c, '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

/// An error and its causes on one line; what the system says, without its numbers and names.
pub fn of_error(error: &anyhow::Error) -> String {
    let causes = error.chain().map(|cause| {
        if let Some(error) = cause.downcast_ref::<io::Error>() {
            return of_io(error);
        }
        match cause.downcast_ref::<Errno>() {
            Some(errno) => of_errno(*errno),
            None => cause.to_string(),
        }
    });
    causes.collect::<Vec<_>>().join(": ")
}

/// The standard library adds "(os error 111)" to a plain description.
pub fn of_io(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(number) => of_errno(Errno::from_raw(number)),
        None => error.to_string(),
    }
}

/// What the system calls it.
pub fn of_errno(errno: Errno) -> String {
    errno.desc().to_lowercase()
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
}
