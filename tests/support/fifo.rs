//! Named pipes, without the wait that opening one can be.

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use nix::errno::Errno;
use nix::fcntl::OFlag;

use super::wait::until;

/// Writes a short text to whoever has the pipe open to read, or has within 20 seconds.
#[track_caller]
pub fn write_to_reader(pipe: &Path, text: &str) {
    let mut options = OpenOptions::new();
    options.write(true).custom_flags(OFlag::O_NONBLOCK.bits());
    let mut writer = until("a reader of the pipe", || match options.open(pipe) {
        Err(error) if error.raw_os_error() == Some(Errno::ENXIO as i32) => None,
        opened => Some(opened.unwrap_or_else(|error| panic!("{}: {error}", pipe.display()))),
    });
    writer.write_all(text.as_bytes()).unwrap();
}
