//! A process on a pseudo-terminal that is its controlling terminal, as in a user's window.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use nix::fcntl::OFlag;
use nix::pty::{PtyMaster, grantpt, posix_openpt, ptsname_r, unlockpt};
use nix::sys::signal::Signal;
use nix::unistd::Pid;

use super::child::Running;
use super::finished::Finished;
use super::stream::Stream;
use super::sys;

const ROWS: u16 = 24;
const COLUMNS: u16 = 80;

/// A running process and the other side of its terminal.
pub struct Pty {
    running: Running,
    master: File,
    /// How far into the output [`Self::wait_for`] has come.
    seen: usize,
}

impl Pty {
    /// Starts the command as the leader of a session on a new terminal of 24 lines of 80 columns.
    #[track_caller]
    pub fn start(command: &mut Command, server_log: Option<PathBuf>) -> Self {
        let (master, terminal) = open_terminal().expect("the system has a free pseudo-terminal");
        sys::resize_terminal(&master, ROWS, COLUMNS).expect("a terminal has a size");
        let side = || Stdio::from(terminal.try_clone().expect("descriptors can be copied"));
        command
            .env("TERM", "xterm")
            .stdin(side())
            .stdout(side())
            .stderr(side());
        sys::in_own_terminal(command);
        let running = Running::start_as_is(command).with_server_log(server_log);
        // The terminal ends when nobody has it open any more; the command would keep it.
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let output = master.try_clone().expect("descriptors can be copied");
        Self {
            running: running.with_stdout(Stream::collect(output)),
            master,
            seen: 0,
        }
    }

    /// Types these bytes: `b"\x03"` is Ctrl-C, `b"\x1a"` Ctrl-Z, `b"\x04"` the end of input.
    #[track_caller]
    pub fn write(&mut self, bytes: &[u8]) {
        self.master
            .write_all(bytes)
            .expect("a terminal takes input");
    }

    /// Waits until the terminal shows this text after what was last waited for, and panics if the process ends first.
    #[track_caller]
    pub fn wait_for(&mut self, text: &str) {
        let seen = self.seen;
        let find =
            |running: &Running| find(&running.stdout_bytes_so_far()[seen..], text.as_bytes());
        let what = format!("{text:?} on the terminal");
        self.running
            .wait_output(&what, |running| find(running).is_some());
        self.seen += find(&self.running).expect("found before") + text.len();
    }

    /// Sets the window's size, of which the foreground processes are told by SIGWINCH.
    pub fn resize(&self, rows: u16, columns: u16) {
        sys::resize_terminal(&self.master, rows, columns).expect("a terminal has a size");
    }

    /// The process's number.
    pub fn pid(&self) -> Pid {
        self.running.pid()
    }

    /// Whether the process has not ended yet.
    pub fn is_running(&mut self) -> bool {
        self.running.is_running()
    }

    /// Sends a signal to the process alone.
    #[track_caller]
    pub fn signal(&mut self, signal: Signal) {
        self.running.signal(signal);
    }

    /// All that the terminal has shown until now.
    pub fn output_so_far(&self) -> String {
        self.running.stdout_so_far()
    }

    /// Waits for the end of the process; what the terminal showed is its standard output.
    #[track_caller]
    pub fn wait(self) -> Finished {
        self.running.wait()
    }
}

/// Opens both sides, close-on-exec from the first moment: another test's process must not keep a terminal open.
pub fn open_terminal() -> nix::Result<(File, File)> {
    let master: PtyMaster = posix_openpt(OFlag::O_RDWR | OFlag::O_NOCTTY | OFlag::O_CLOEXEC)?;
    grantpt(&master)?;
    unlockpt(&master)?;
    let path = ptsname_r(&master)?;
    let flags = OFlag::O_NOCTTY.bits();
    let terminal = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(flags)
        .open(path);
    let terminal = terminal.map_err(|error| nix::Error::try_from(error).unwrap())?;
    Ok((File::from(OwnedFd::from(master)), terminal))
}

fn find(bytes: &[u8], text: &[u8]) -> Option<usize> {
    bytes.windows(text.len()).position(|window| window == text)
}
