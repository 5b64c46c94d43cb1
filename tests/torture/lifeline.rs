//! Ctrl-C, or whatever else ends the program that was called: the campaign itself is another process, in a session of its own,
//! which notices that nobody holds its standard input any more, and ends early but in order.

use std::env;
use std::io::{self, Read as _};
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use std::thread;

use crate::testbed::Testbed;

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
pub fn heed(testbed: Arc<Testbed>) {
    thread::spawn(move || {
        // That it cannot be read is its end as well.
        let _ = io::stdin().read_to_end(&mut Vec::new());
        testbed.finish();
    });
}
