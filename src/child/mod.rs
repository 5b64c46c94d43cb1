//! The command as a process: started, signalled and reaped from this one place.

mod image;
mod tree;

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;

use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid, fork, getpgid, getpgrp, getpid, getsid, pipe2};

use self::image::Image;
use crate::exit::{CommandEnd, Fault};
use crate::signals::{Caught, Inherited};

/// What to run: the words of the command, and how its environment differs from pglock's.
#[derive(Debug)]
pub struct Command {
    pub words: Vec<OsString>,
    /// `None` takes a variable away.
    pub environment: Vec<(&'static str, Option<String>)>,
}

/// A started command that was not reaped yet.
#[derive(Debug)]
pub struct Child {
    pid: Pid,
    family: Family,
    is_reaped: bool,
}

/// Who belongs to the command.
///
/// With a controlling terminal the command stays in pglock's process group: in a group of its own it could
/// not read the terminal, and job control would reach only half. Without one it leads a group of its own,
/// which can be signalled as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Family {
    OwnGroup,
    /// `since` tells the command's descendants from older children of this process.
    SharedGroup {
        since: u64,
    },
}

impl Child {
    /// Starts `command` with the inherited descriptors, signal mask and dispositions.
    ///
    /// The environment is pglock's own and the additions. Errors: [`Fault::CommandNotFound`],
    /// [`Fault::CannotExecute`].
    pub fn start(command: &Command, inherited: &Inherited) -> anyhow::Result<Self> {
        let own_group = !has_controlling_terminal();
        nix::sys::prctl::set_child_subreaper(true)?;
        let image = Image::of(command)?;
        let (failure_of_exec, report) = pipe2(OFlag::O_CLOEXEC)?;
        // SAFETY: the child runs only `Image::turn_into`, which never returns. It calls the kernel and, for
        // execve(2)'s arrays, malloc(3), which the C library keeps usable in the child of a process with threads.
        #[expect(unsafe_code, reason = "fork(2) has no safe form")]
        let forked = unsafe { fork() }?;
        let pid = match forked {
            ForkResult::Child => image.turn_into(own_group, inherited, &report),
            ForkResult::Parent { child } => child,
        };
        drop(report);
        match read_errno(failure_of_exec)? {
            None => Ok(Self {
                pid,
                family: if own_group {
                    Family::OwnGroup
                } else {
                    let since = tree::start_of(pid).unwrap_or_default();
                    Family::SharedGroup { since }
                },
                is_reaped: false,
            }),
            Some(errno) => {
                waitpid(pid, None)?;
                Err(cannot_execute(&command.words[0], errno))
            }
        }
    }

    pub fn pid(&self) -> i32 {
        self.pid.as_raw()
    }

    /// Passes a signal on, unless the command has it from the kernel already.
    pub fn forward(&self, caught: Caught) {
        match self.family {
            Family::OwnGroup => drop(send(self.addressees(), caught.signal)),
            Family::SharedGroup { .. } if self.is_reaped || self.was_told(caught) => {}
            Family::SharedGroup { .. } => drop(send([self.pid], caught.signal)),
        }
    }

    /// Whether the terminal sent the signal to the command too: it signals its whole foreground group, but the
    /// session leader alone when it hangs up (setsid(2)).
    fn was_told(&self, caught: Caught) -> bool {
        let hung_up = caught.signal == Signal::SIGHUP && getsid(None) == Ok(getpid());
        caught.from_kernel && !hung_up && getpgid(Some(self.pid)) == Ok(getpgrp())
    }

    /// Sends `signal` to everything that belongs to the command, and wakes what is stopped.
    ///
    /// The error is why somebody could not be signalled; the others were.
    pub fn signal_all(&self, signal: Signal) -> nix::Result<()> {
        let sent = send(self.addressees(), signal);
        let _ = send(self.addressees(), Signal::SIGCONT);
        sent
    }

    /// Whether anything that belongs to the command is still there; a child of pglock's counts until it is
    /// reaped.
    pub fn has_family(&self) -> bool {
        match self.family {
            Family::OwnGroup => !self.is_reaped || !tree::group(self.pid).is_empty(),
            Family::SharedGroup { since } => !tree::descendants(since).is_empty(),
        }
    }

    /// Whom kill(2) has to be told to reach everything: processes, or a group as a negative number.
    fn addressees(&self) -> Vec<Pid> {
        match self.family {
            Family::SharedGroup { since } => tree::descendants(since),
            Family::OwnGroup => {
                let group = Pid::from_raw(-self.pid.as_raw());
                let has_left = !self.is_reaped && getpgid(Some(self.pid)) != Ok(self.pid);
                [group]
                    .into_iter()
                    .chain(has_left.then_some(self.pid))
                    .collect()
            }
        }
    }

    /// Reaps every child that has ended, orphans that became ours among them; how the command ended, if it
    /// did.
    pub fn reap(&mut self) -> nix::Result<Option<CommandEnd>> {
        let mut end = None;
        loop {
            match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
                Ok(WaitStatus::Exited(pid, code)) if pid == self.pid => {
                    // wait(2): the low 8 bits of what the command passed to exit(3).
                    end = Some(CommandEnd::Exited(code.to_le_bytes()[0]));
                }
                Ok(WaitStatus::Signaled(pid, signal, _)) if pid == self.pid => {
                    end = Some(CommandEnd::Killed {
                        signal: signal as i32,
                    });
                }
                Ok(WaitStatus::StillAlive) | Err(Errno::ECHILD) => break,
                Ok(_) | Err(Errno::EINTR) => {}
                Err(error) => return Err(error),
            }
        }
        self.is_reaped |= end.is_some();
        Ok(end)
    }
}

/// A command must not outlive the supervision that failed: nobody would hold the lock for it.
impl Drop for Child {
    fn drop(&mut self) {
        if !self.is_reaped {
            let _ = self.signal_all(Signal::SIGKILL);
        }
    }
}

/// Signals each of these; one that has gone meanwhile needs no signal. The first error, once all were tried.
fn send(addressees: impl IntoIterator<Item = Pid>, signal: Signal) -> nix::Result<()> {
    let mut sent = Ok(());
    for addressee in addressees {
        match kill(addressee, signal) {
            Ok(()) | Err(Errno::ESRCH) => {}
            Err(error) => sent = sent.and(Err(error)),
        }
    }
    sent
}

fn has_controlling_terminal() -> bool {
    File::open("/dev/tty").is_ok()
}

fn cannot_execute(program: &OsStr, errno: Errno) -> anyhow::Error {
    let program = crate::text::printable(&program.to_string_lossy());
    let why = io::Error::from(errno).kind();
    match errno {
        Errno::ENOENT => Fault::CommandNotFound.error(format!("{program}: command not found")),
        _ => Fault::CannotExecute.error(format!("{program}: cannot execute: {why}")),
    }
}

/// The errno that the child reported, or `None` when exec closed the pipe.
fn read_errno(failure_of_exec: OwnedFd) -> io::Result<Option<Errno>> {
    let mut bytes = Vec::new();
    File::from(failure_of_exec).read_to_end(&mut bytes)?;
    Ok(bytes
        .try_into()
        .ok()
        .map(|bytes| Errno::from_raw(i32::from_ne_bytes(bytes))))
}
