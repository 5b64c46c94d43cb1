//! How pglock can end, and the exit status of each end: the only file that knows the numbers.

use std::fmt;

use nix::sys::signal::Signal;

/// An ordinary end. What went wrong unexpectedly is an error, classified by [`Fault`].
#[derive(Debug)]
pub enum Outcome {
    /// Everything asked for was done.
    Done,
    /// `list -q` and `release` found nothing held.
    NothingHeld,
    /// `key --check` found names that share a key.
    KeysShared,
    /// The command ran to its end under the lock.
    Command(CommandEnd),
    /// Somebody else holds the lock; nothing was run.
    NotObtained { code: u8, message: Option<String> },
    /// A signal ended the wait; nothing was run.
    Interrupted { signal: i32 },
    /// `release` did not free every lock; a line for each that is left.
    StillHeld(Vec<String>),
    /// The server refused to terminate a holder; a line for each that is left.
    Denied(Vec<String>),
    /// The command ran longer than it may, and was stopped.
    Overran(String),
    /// The lock was lost while the command ran; `None` when that was said at once.
    Lost(Option<String>),
}

/// How the command itself ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CommandEnd {
    Exited(u8),
    Killed { signal: i32 },
}

impl CommandEnd {
    /// Whether it ended by this signal, or said so as a shell does.
    pub fn is_of(self, signal: i32) -> bool {
        match self {
            Self::Killed { signal: by } => by == signal,
            Self::Exited(code) => i32::from(code) == 128 + signal,
        }
    }
}

/// The status when the lock was not obtained, unless `-E` says otherwise.
pub const NOT_OBTAINED: u8 = 75;

impl Outcome {
    /// The exit status.
    pub fn code(&self) -> u8 {
        match self {
            Self::Done => 0,
            Self::NothingHeld | Self::KeysShared => 1,
            Self::Command(CommandEnd::Exited(code)) | Self::NotObtained { code, .. } => *code,
            Self::Command(CommandEnd::Killed { signal }) | Self::Interrupted { signal } => {
                killed_by(*signal)
            }
            Self::StillHeld(_) => NOT_OBTAINED,
            Self::Denied(_) => 120,
            Self::Lost(_) => 123,
            Self::Overran(_) => 124,
        }
    }

    /// The signal with which a terminal's user interrupted the command or the wait for the lock, if one did.
    pub fn interrupt(&self) -> Option<Signal> {
        match self {
            Self::Command(CommandEnd::Killed { signal }) | Self::Interrupted { signal } => {
                let interrupts =
                    |signal: &Signal| matches!(signal, Signal::SIGINT | Signal::SIGQUIT);
                Signal::try_from(*signal).ok().filter(interrupts)
            }
            Self::Done
            | Self::NothingHeld
            | Self::KeysShared
            | Self::Command(CommandEnd::Exited(_))
            | Self::NotObtained { .. }
            | Self::StillHeld(_)
            | Self::Denied(_)
            | Self::Lost(_)
            | Self::Overran(_) => None,
        }
    }

    /// The lines for standard error; most ends have nothing to say.
    pub fn messages(&self) -> &[String] {
        match self {
            Self::NotObtained { message, .. } | Self::Lost(message) => message.as_slice(),
            Self::Overran(message) => std::slice::from_ref(message),
            Self::StillHeld(messages) | Self::Denied(messages) => messages,
            Self::Done
            | Self::NothingHeld
            | Self::KeysShared
            | Self::Command(_)
            | Self::Interrupted { .. } => &[],
        }
    }
}

impl fmt::Display for CommandEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exited(code) => write!(f, "exited with {code}"),
            Self::Killed { signal } => write!(f, "was killed by signal {signal}"),
        }
    }
}

/// The shells' convention: 128 + N.
fn killed_by(signal: i32) -> u8 {
    u8::try_from(128 + signal).unwrap_or(u8::MAX)
}

/// The class of an error, which decides the exit status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The arguments or the configuration are wrong; nothing was done.
    Usage,
    /// The server refused what was asked.
    PermissionDenied,
    /// No session: refused, timed out, authentication, TLS, too many connections.
    CannotConnect,
    /// The same, for as long as others use all that there is: connections, or room for locks.
    Full,
    /// This server cannot hold such a lock; nothing was run.
    Unfit,
    /// The command exists but cannot be executed.
    CannotExecute,
    /// There is no such command.
    CommandNotFound,
}

impl Fault {
    fn code(self) -> u8 {
        match self {
            Self::PermissionDenied => 120,
            Self::CannotConnect | Self::Full => 121,
            Self::Unfit => 122,
            Self::Usage => UNEXPECTED,
            Self::CannotExecute => 126,
            Self::CommandNotFound => 127,
        }
    }

    /// Whether `error` is of this class.
    pub fn classifies(self, error: &anyhow::Error) -> bool {
        error
            .downcast_ref::<Failure>()
            .is_some_and(|failure| failure.fault == self)
    }

    /// An error of this class that says `message`.
    pub fn error(self, message: impl Into<String>) -> anyhow::Error {
        Failure {
            fault: self,
            message: message.into(),
        }
        .into()
    }
}

/// The status of every error that no [`Fault`] classifies.
const UNEXPECTED: u8 = 125;

/// The exit status of an error.
pub fn code_of(error: &anyhow::Error) -> u8 {
    error
        .downcast_ref::<Failure>()
        .map_or(UNEXPECTED, |failure| failure.fault.code())
}

/// A classified error.
#[derive(Debug)]
struct Failure {
    fault: Fault,
    message: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}
