//! Ctrl-C, or whatever else ends the program that was called: the campaign itself is another process, in a session of its own,
//! which notices that nobody holds its standard input any more, and ends early but in order.

use std::env;
use std::io::{self, Read as _};
use std::process::{Command, ExitCode, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::Duration;

/// The first argument of the process that is the campaign.
pub const WORD: &str = "campaign";

/// Starts the campaign with the arguments of this process, and waits for its end.
pub fn start() -> io::Result<ExitCode> {
    let mut campaign = Command::new("setsid")
        .arg(env::current_exe()?)
        .arg(WORD)
        .args(env::args_os().skip(1))
        .stdin(Stdio::piped())
        .spawn()?;
    // To wait for a child closes its standard input, unless it was taken.
    let line = campaign.stdin.take();
    let status = campaign.wait()?;
    drop(line);
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    Ok(code.map_or(ExitCode::FAILURE, ExitCode::from))
}

/// Lets the end of standard input end the campaign.
pub fn heed(end: impl FnOnce() + Send + 'static) {
    thread::spawn(move || {
        // That it cannot be read is its end as well.
        let _ = io::stdin().read_to_end(&mut Vec::new());
        end();
    });
}

/// The line itself, for those who wait for its end.
pub struct Lifeline {
    /// Which nobody sends to.
    end: Receiver<()>,
}

impl Lifeline {
    pub fn hold() -> Self {
        let (sender, end) = mpsc::channel();
        heed(move || drop(sender));
        Self { end }
    }

    pub fn has_ended(&self) -> bool {
        self.ends_within(Duration::ZERO)
    }

    /// Waits for so long, or until the end, if that comes first.
    pub fn ends_within(&self, time: Duration) -> bool {
        self.end.recv_timeout(time) == Err(RecvTimeoutError::Disconnected)
    }
}
