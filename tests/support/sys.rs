//! The system calls for which the standard library has no name: the only unsafe code of the harness.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::process::Command;

use nix::errno::Errno;
use nix::libc;
use nix::unistd::setsid;

/// Makes the command's process the leader of a session of its own: no terminal's signals reach it.
#[expect(unsafe_code, reason = "std has no stable name for setsid")]
pub fn in_own_session(command: &mut Command) {
    let prepare = || {
        setsid()?;
        Ok(())
    };
    // SAFETY: the closure only makes a system call: it takes no lock and no memory, as a forked child must not.
    unsafe { command.pre_exec(prepare) };
}

/// Makes the terminal on the command's standard input its controlling terminal, in a session of its own.
#[expect(unsafe_code, reason = "std has no name for setsid and TIOCSCTTY")]
pub fn in_own_terminal(command: &mut Command) {
    let prepare = || {
        setsid()?;
        // SAFETY: TIOCSCTTY takes a plain number, and a bad descriptor is an error it returns.
        Errno::result(unsafe { libc::ioctl(libc::STDIN_FILENO, libc::TIOCSCTTY, 0) })?;
        Ok(())
    };
    // SAFETY: the closure only makes system calls: it takes no lock and no memory, as a forked child must not.
    unsafe { command.pre_exec(prepare) };
}

/// Sets the terminal's size; its foreground processes get SIGWINCH if that is a change.
#[expect(unsafe_code, reason = "std has no name for TIOCSWINSZ")]
pub fn resize_terminal(terminal: &File, rows: u16, columns: u16) -> io::Result<()> {
    let size = libc::winsize {
        ws_row: rows,
        ws_col: columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    // SAFETY: TIOCSWINSZ reads one winsize, and `size` outlives the call.
    Errno::result(unsafe { libc::ioctl(terminal.as_raw_fd(), libc::TIOCSWINSZ, &raw const size) })?;
    Ok(())
}
