//! `list --json`: one array, one object a line; `check --json`: one object.

use std::fmt::Write as _;

use crate::inventory::{FitnessView, LockView};
use crate::text::is_deceptive;

/// Characters that a terminal may act on are escaped (RFC 8259, 7), wherever the output goes: it is the same
/// to a JSON reader.
pub fn render<'a>(views: impl Iterator<Item = &'a LockView>) -> anyhow::Result<String> {
    let objects = views
        .map(|view| Ok(escaped(serde_json::to_string(view)?)))
        .collect::<anyhow::Result<Vec<String>>>()?;
    Ok(if objects.is_empty() {
        "[]\n".to_owned()
    } else {
        format!("[{}]\n", objects.join(",\n "))
    })
}

/// The one object of `check`, a key a line.
pub fn render_fitness(view: &FitnessView) -> anyhow::Result<String> {
    // The line breaks of the layout are none of the text's: those are escaped within strings.
    let lines = serde_json::to_string_pretty(view)?;
    let lines: Vec<String> = lines.lines().map(|line| escaped(line.to_owned())).collect();
    Ok(lines.join("\n") + "\n")
}

/// All such characters are of Unicode's basic plane.
fn escaped(object: String) -> String {
    // Nearly all are, and to look at bytes takes a tenth of the time.
    if object.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
        return object;
    }
    object
        .chars()
        .fold(String::with_capacity(object.len()), |mut out, c| {
            if is_deceptive(c) {
                // Writing to a String cannot fail.
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            } else {
                out.push(c);
            }
            out
        })
}
