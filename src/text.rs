//! Text from elsewhere made fit for one line of a terminal.

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
