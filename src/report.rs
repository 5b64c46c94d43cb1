//! Lines on standard error: `pglock: …`, and what `--verbose` adds.

use std::io::Write as _;
use std::time::Instant;

use crate::text::printable;

/// One line; whatever a message holds, it stays one line and harmless to a terminal.
pub fn line(message: &str) {
    // A closed standard error leaves nobody to tell.
    let _ = writeln!(std::io::stderr(), "pglock: {}", printable(message));
}

/// What is done, with the time since the start, for those who asked.
#[derive(Clone, Copy, Debug)]
pub struct Reporter {
    start: Option<Instant>,
}

impl Reporter {
    pub fn new(verbose: bool) -> Self {
        Self {
            start: verbose.then(Instant::now),
        }
    }

    pub fn detail(&self, message: impl FnOnce() -> String) {
        if let Some(start) = self.start {
            let elapsed = start.elapsed().as_secs_f64();
            line(&format!("[{elapsed:.3} s] {}", message()));
        }
    }
}
