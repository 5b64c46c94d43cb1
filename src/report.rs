//! Lines on standard error: `pglock: …`, and what `--verbose` adds.

mod status_line;

use std::io::Write as _;
use std::os::fd::AsFd as _;
use std::time::Instant;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

pub use self::status_line::StatusLine;
use crate::text::printable;

/// One line; whatever a message holds, it stays one line and harmless to a terminal.
pub fn line(message: &str) {
    // A closed standard error leaves nobody to tell.
    let _ = writeln!(std::io::stderr(), "pglock: {}", printable(message));
}

/// The same while a command is watched: a reader that has stopped reading must not stop the watch, so the line
/// is left out then.
pub fn line_unless_blocked(message: &str) {
    let stderr = std::io::stderr();
    let mut polled = [PollFd::new(stderr.as_fd(), PollFlags::POLLOUT)];
    let ready = poll(&mut polled, PollTimeout::ZERO);
    if ready.is_ok_and(|ready| ready > 0) {
        line(message);
    }
}

/// What is done, with the time since the start, for those who asked.
#[derive(Clone, Copy, Debug)]
pub struct Reporter {
    start: Option<Instant>,
    is_quiet: bool,
}

impl Reporter {
    pub fn new(verbose: bool, quiet: bool) -> Self {
        Self {
            start: verbose.then(Instant::now),
            is_quiet: quiet,
        }
    }

    /// What a person who waits should know, unless they asked for quiet.
    pub fn notice(&self, message: impl FnOnce() -> String) {
        if !self.is_quiet {
            line_unless_blocked(&message());
        }
    }

    /// The line for a wait, where it would disturb nobody.
    pub fn status_line(&self) -> Option<StatusLine> {
        if self.is_quiet || self.start.is_some() {
            return None;
        }
        StatusLine::on_terminal()
    }

    pub fn detail(&self, message: impl FnOnce() -> String) {
        if let Some(start) = self.start {
            let elapsed = start.elapsed().as_secs_f64();
            line_unless_blocked(&format!("[{elapsed:.3} s] {}", message()));
        }
    }
}
