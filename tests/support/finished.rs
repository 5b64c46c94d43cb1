//! What a process left behind when it ended, and assertions that on failure print all of it.

use std::fmt::{self, Debug, Formatter};
use std::path::PathBuf;
use std::time::Duration;

use super::server_log;

/// A process that has ended. Its `Debug` is the report that every failed assertion prints.
pub struct Finished {
    /// The command line, quoted as for a shell.
    pub command: String,
    /// The exit code, unless a signal ended the process.
    pub code: Option<i32>,
    /// The signal that ended the process.
    pub signal: Option<i32>,
    /// Standard output as text; on a terminal, all that it showed.
    pub stdout: String,
    /// Standard output as it is.
    pub stdout_bytes: Vec<u8>,
    /// Standard error as text; empty on a terminal.
    pub stderr: String,
    /// From the start to the end of the process.
    pub took: Duration,
    /// The log of the server that the process was led to.
    pub server_log: Option<PathBuf>,
}

impl Finished {
    /// Asserts the exit code.
    #[track_caller]
    pub fn assert_code(&self, code: i32) -> &Self {
        self.assert(self.code == Some(code), &format!("exit code {code}"))
    }

    /// Asserts that this signal ended the process.
    #[track_caller]
    pub fn assert_signal(&self, signal: i32) -> &Self {
        self.assert(
            self.signal == Some(signal),
            &format!("ended by signal {signal}"),
        )
    }

    /// Asserts that neither stream has a byte.
    #[track_caller]
    pub fn assert_silent(&self) -> &Self {
        self.assert_stdout("").assert_stderr("")
    }

    /// Asserts the whole of standard output.
    #[track_caller]
    pub fn assert_stdout(&self, text: &str) -> &Self {
        self.assert(self.stdout == text, &format!("standard output {text:?}"))
    }

    /// Asserts the whole of standard error.
    #[track_caller]
    pub fn assert_stderr(&self, text: &str) -> &Self {
        self.assert(self.stderr == text, &format!("standard error {text:?}"))
    }

    /// Asserts that standard output has this text somewhere.
    #[track_caller]
    pub fn assert_stdout_has(&self, text: &str) -> &Self {
        self.assert(
            self.stdout.contains(text),
            &format!("standard output with {text:?}"),
        )
    }

    /// Asserts that standard error has this text somewhere.
    #[track_caller]
    pub fn assert_stderr_has(&self, text: &str) -> &Self {
        self.assert(
            self.stderr.contains(text),
            &format!("standard error with {text:?}"),
        )
    }

    /// Asserts that standard error is one message of pglock's: one line, `pglock: `, no full stop.
    #[track_caller]
    pub fn assert_one_message(&self) -> &Self {
        let message = self.stderr.strip_suffix('\n').unwrap_or_default();
        let fits =
            message.starts_with("pglock: ") && !message.contains('\n') && !message.ends_with('.');
        self.assert(fits, "one message on standard error")
    }

    /// Asserts anything else about the process; `expected` says what.
    #[track_caller]
    pub fn assert(&self, holds: bool, expected: &str) -> &Self {
        assert!(holds, "expected {expected} of\n{self:?}");
        self
    }
}

impl Debug for Finished {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        writeln!(out, "--- command\n{}", self.command)?;
        match (self.code, self.signal) {
            (Some(code), _) => writeln!(out, "--- exit code {code} after {:?}", self.took)?,
            (None, signal) => writeln!(out, "--- signal {signal:?} after {:?}", self.took)?,
        }
        writeln!(out, "--- standard output\n{}", self.stdout)?;
        writeln!(out, "--- standard error\n{}", self.stderr)?;
        let Some(log) = &self.server_log else {
            return Ok(());
        };
        writeln!(out, "--- the server's log\n{}", server_log::tail(log))
    }
}
