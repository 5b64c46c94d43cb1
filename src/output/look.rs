//! What standard output can show: how wide, in which characters, in colour or not.

use std::env;
use std::io::{IsTerminal as _, stdout};

use anstream::{AutoStream, ColorChoice};
use terminal_size::{Height, Width, terminal_size_of};

use super::layout;
use crate::text::printable;

/// What a table is drawn for.
#[derive(Clone, Copy, Debug)]
pub struct Look {
    /// How wide lines may be; `None` where they may be as long as they like.
    pub width: Option<usize>,
    pub is_utf8: bool,
    pub is_coloured: bool,
}

impl Look {
    pub fn of_stdout() -> Self {
        Self::of_width(width())
    }

    /// Of a terminal whatever COLUMNS says: as wide as it is, else without an end.
    pub fn of_terminal() -> Self {
        Self::of_width(terminal_width())
    }

    fn of_width(width: Option<u16>) -> Self {
        Self {
            width: width.map(usize::from),
            is_utf8: is_utf8(),
            is_coloured: AutoStream::choice(&stdout()) != ColorChoice::Never,
        }
    }

    /// One line of text from anywhere, cut off where the width ends.
    pub fn line(self, text: &str) -> String {
        let text = self.shown(text);
        match self.width {
            Some(width) => layout::cut(&text, width, self.ellipsis()),
            None => text,
        }
    }

    /// Only what the terminal can show, and does not act on.
    pub fn shown(self, text: &str) -> String {
        let printable = printable(text);
        if self.is_utf8 || printable.is_ascii() {
            return printable;
        }
        let ascii = |c: char| {
            if c.is_ascii() {
                c.to_string()
            } else {
                c.escape_default().to_string()
            }
        };
        printable.chars().map(ascii).collect()
    }

    /// What stands for the rest of a text that was cut off.
    pub fn ellipsis(self) -> &'static str {
        if self.is_utf8 { "…" } else { "..." }
    }
}

/// COLUMNS, as for ls(1) and ps(1), else the terminal's width; `None` where there is neither.
pub fn width() -> Option<u16> {
    let typed = env::var("COLUMNS")
        .ok()
        .and_then(|columns| columns.parse().ok());
    let typed = typed.filter(|columns| *columns > 0);
    typed.or_else(terminal_width)
}

fn terminal_width() -> Option<u16> {
    terminal_size().map(|(Width(columns), _)| columns)
}

/// How many lines a terminal shows.
pub fn height() -> Option<u16> {
    terminal_size().map(|(_, Height(lines))| lines)
}

fn terminal_size() -> Option<(Width, Height)> {
    let stdout = stdout();
    stdout.is_terminal().then(|| terminal_size_of(stdout))?
}

/// Whether the locale's characters are UTF-8 (locale(7): the first of these that is set decides).
fn is_utf8() -> bool {
    let set = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter();
    let locale = set
        .filter_map(|name| env::var(name).ok())
        .find(|locale| !locale.is_empty());
    locale.is_some_and(|locale| {
        let locale = locale.to_ascii_lowercase();
        locale.contains("utf-8") || locale.contains("utf8")
    })
}
