//! What a pglock session tells the server of itself, and how it is read back.
//!
//! Two places, written and read here and nowhere else:
//! - `application_name` (63 bytes of ASCII), which every role can see: `pglock: NAME (HOST:PID)`, with `?`
//!   (or `~` for a shared lock) instead of `:` while the session waits, `#RULE:NAME` where its key is not by
//!   pglock's own rule, and `#KEY` where the name is raw or does not fit; where there are slots `NAME#SLOT/SLOTS` or
//!   `NAME#SLOTS` stands for NAME;
//! - a comment at the start of the query text, for roles that may read it: the whole name and more.

mod said;
#[cfg(test)]
mod tests;
mod told;

pub use self::said::{APPLICATION_NAME_BYTES, Identity, ascii, host_name};
pub use self::told::Told;
use crate::key::Mode;

/// Whether a session owns its lock or is between two tries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// In this slot, where there are slots.
    Holding(u32),
    Waiting(Mode),
}

impl Stage {
    const ALL: [Self; 3] = [
        Self::Holding(0),
        Self::Waiting(Mode::Exclusive),
        Self::Waiting(Mode::Shared),
    ];

    fn mark(self) -> char {
        match self {
            Self::Holding(_) => ':',
            Self::Waiting(Mode::Exclusive) => '?',
            Self::Waiting(Mode::Shared) => '~',
        }
    }
}

/// When a session got to where it is, in microseconds since 1970 on the server's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Since {
    /// The wait began.
    Waiting(i64),
    /// The lock was taken.
    Held(i64),
}

const COMMENT_START: &str = "/*pglock ";
/// The blank keeps a `/` before it from beginning a nested comment.
const COMMENT_END: &str = " */";
