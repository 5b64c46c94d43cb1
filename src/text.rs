//! Text from elsewhere made fit for one line of a terminal.

/// Escapes what could move a terminal's cursor, change its state or hide text: control characters
/// (including newlines) and Unicode's invisible ones.
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

/// Characters without a width, among them those that reorder what is displayed (Unicode Standard Annex 9).
fn is_invisible(c: char) -> bool {
    matches!(c, '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
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
