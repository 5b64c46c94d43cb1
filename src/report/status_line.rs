//! One line on a terminal that says what is waited for, and is gone when the wait is over.

use std::io::{IsTerminal as _, Write as _, stderr};

use terminal_size::{Width, terminal_size_of};

use crate::text::printable;

/// Return to the start of the line, and erase it (ECMA-48, EL).
const ERASE: &str = "\r\x1b[K";

/// The line; dropped, it is erased.
pub struct StatusLine {
    /// How often it was shown.
    shown: usize,
}

/// It turns with each look, so that a person sees that somebody looks.
const SPINNER: [char; 4] = ['|', '/', '-', '\\'];

impl StatusLine {
    /// `None` where standard error is no terminal.
    pub fn on_terminal() -> Option<Self> {
        stderr().is_terminal().then_some(Self { shown: 0 })
    }

    /// Shows this instead of what was shown, as far as it fits: what is done, and what the matter is.
    pub fn show(&mut self, doing: &str, matter: &str) {
        // The last column stays free: a terminal may go on to the next line there.
        let columns = terminal_size_of(stderr()).map_or(80, |(Width(columns), _)| columns);
        let room = usize::from(columns.saturating_sub(1));
        let spinner = SPINNER[self.shown % SPINNER.len()];
        let line: String = format!("pglock: {doing} {spinner} {}", printable(matter))
            .chars()
            .take(room)
            .collect();
        // A terminal that has gone leaves nobody to tell.
        let _ = write!(stderr(), "{ERASE}{line}");
        self.shown += 1;
    }
}

impl Drop for StatusLine {
    fn drop(&mut self) {
        if self.shown > 0 {
            let _ = write!(stderr(), "{ERASE}");
        }
    }
}
