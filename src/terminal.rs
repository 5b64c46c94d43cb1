//! The controlling terminal (tty(4)), whatever the standard streams are.

use std::fs::File;

/// Whether this process has a controlling terminal, which has not hung up.
pub fn is_controlling() -> bool {
    File::open("/dev/tty").is_ok()
}
