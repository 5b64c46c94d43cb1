//! A view in, a String out; and the one place that writes to standard output.

pub mod csv;
pub mod fitness;
pub mod json;
pub mod table;

use std::io::{self, IsTerminal as _, Write as _};

use anyhow::Context as _;
use terminal_size::{Width, terminal_size_of};

use crate::signals;

/// How wide lines may be; `None` where there is no terminal, and they may be as long as they like.
pub fn terminal_width() -> Option<u16> {
    let stdout = io::stdout();
    let (Width(columns), _) = stdout.is_terminal().then(|| terminal_size_of(stdout))??;
    Some(columns)
}

/// Writes everything at once. A reader that has gone (`| head`) is no error; any other failure is.
pub fn write(text: &str) -> anyhow::Result<()> {
    let written = if signals::closed_at_start().any(|fd| fd == 1) {
        Err(io::Error::from_raw_os_error(nix::libc::EBADF))
    } else {
        {
            let mut stdout = io::stdout().lock();
            stdout
                .write_all(text.as_bytes())
                .and_then(|()| stdout.flush())
        }
    };
    match written {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written.context("writing to standard output"),
    }
}
