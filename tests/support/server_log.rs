//! What a server has logged, as far as a test asks.

use std::fs;
use std::path::Path;

/// How many lines a failed assertion prints.
const TAIL: usize = 30;

/// The first lines of all messages of level WARNING, ERROR, FATAL and PANIC.
pub fn grave_lines(log: &str) -> Vec<String> {
    log.lines()
        .filter(|line| is_grave(line))
        .map(str::to_owned)
        .collect()
}

/// The last lines of a log, which may be gone with its server.
pub fn tail(path: &Path) -> String {
    let Ok(bytes) = fs::read(path) else {
        return "gone".to_owned();
    };
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(TAIL)..].join("\n")
}

/// Whether the line begins a message of level WARNING, ERROR, FATAL or PANIC.
///
/// A line without a time stamp continues a message, and what follows the level is text: neither counts.
fn is_grave(line: &str) -> bool {
    const GRAVE: [&str; 4] = ["WARNING", "ERROR", "FATAL", "PANIC"];
    const OTHER: [&str; 7] = [
        "LOG",
        "DETAIL",
        "HINT",
        "CONTEXT",
        "STATEMENT",
        "QUERY",
        "LOCATION",
    ];
    let place = |level| Some((line.find(&format!(" {level}:  "))?, level));
    let first = GRAVE.into_iter().chain(OTHER).filter_map(place).min();
    line.starts_with(|first: char| first.is_ascii_digit())
        && first.is_some_and(|(_, level)| GRAVE.contains(&level))
}
