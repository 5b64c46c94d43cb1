//! A view in, a String out; and the one place that writes to standard output.

pub mod csv;
mod findings;
pub mod fitness;
pub mod json;
pub mod keys;
mod layout;
mod look;
mod name;
pub mod prometheus;
pub mod table;
pub mod tree;

use std::io::{self, Write as _};

use anyhow::Context as _;

pub use self::look::{Look, height, width};
use crate::signals;

/// Whether somebody still reads what is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reader {
    Present,
    Gone,
}

/// Writes everything at once. A reader that has gone (`| head`) is no error; any other failure is.
pub fn write(text: &str) -> anyhow::Result<()> {
    write_to_reader(text).map(drop)
}

/// The same, for who has more to write.
pub fn write_to_reader(text: &str) -> anyhow::Result<Reader> {
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
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(Reader::Gone),
        written => written
            .map(|()| Reader::Present)
            .context("writing to standard output"),
    }
}
