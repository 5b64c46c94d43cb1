//! The command as a process: started, signalled and reaped from this one place.

mod image;

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsRawFd as _, OwnedFd};

use anyhow::Context as _;
use nix::errno::Errno;
use nix::libc;
use nix::sched::{CloneFlags, clone};
use nix::sys::signal::Signal;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socketpair};
use nix::sys::wait::waitpid;
use nix::unistd::{ForkResult, Pid, close, fork, getpgid, getpgrp, getpid, getsid};

use self::image::{Failure, Image, Newborn};
use crate::canary::Canary;
use crate::exit::{CommandEnd, Fault};
use crate::family::{self, Family, as_group, send};
use crate::guardian::HandOver;
use crate::signals::{Caught, Inherited};
use crate::terminal;
use crate::text;

/// What fails where it is not the command's own fault.
const STARTING: &str = "starting the command";

/// The stack of a child until it is the command: it calls the kernel, from a few frames.
const CHILD_STACK: usize = 64 * 1024;

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
    group: Group,
    family: Family,
    is_reaped: bool,
}

/// Whom a signal to pglock concerns.
///
/// With a controlling terminal the command stays in pglock's process group: in a group of its own it could
/// not read the terminal, and job control would reach only half. Without one it leads a group of its own,
/// which can be signalled as a whole.
#[derive(Debug)]
enum Group {
    Own,
    /// Without a canary where the kernel offers none.
    Shared {
        canary: Option<Canary>,
    },
}

impl Child {
    /// Starts `command` with the inherited descriptors, signal mask and dispositions.
    ///
    /// The environment is pglock's own and the additions. The guardian, if there is one, is told. Errors: [`Fault::CommandNotFound`],
    /// [`Fault::CannotExecute`].
    pub fn start(
        command: &Command,
        inherited: &Inherited,
        hand_over: Option<HandOver<'_>>,
    ) -> anyhow::Result<Self> {
        let own_group = !terminal::is_controlling();
        // Children that this process had before, as a shell leaves them that became pglock by exec(2).
        let guardian = hand_over.map(|hand_over| hand_over.guardian);
        let mut older = family::children_of_this_process();
        older.retain(|child| Some(*child) != guardian);
        // Orphans of the command stay in reach; those of older children are not ours to adopt.
        nix::sys::prctl::set_child_subreaper(older.is_empty())?;
        older.extend(guardian);
        let (start, report) = socketpair(
            AddressFamily::Unix,
            SockType::Stream,
            None,
            SockFlag::SOCK_CLOEXEC,
        )?;
        let newborn = Newborn {
            image: &Image::of(command)?,
            own_group,
            inherited,
            hand_over,
            report: &report,
        };
        let pid = if own_group {
            start_in_our_memory(&newborn)
        } else {
            start_in_a_copy(&newborn, &start)
        }
        .context(STARTING)?;
        drop(report);
        let group = if own_group {
            Group::Own
        } else {
            // Not before the fork: a signal that came earlier is to be passed on.
            let canary = Canary::start().unwrap_or_default();
            older.extend(canary.as_ref().map(Canary::pid));
            image::let_go(&start);
            Group::Shared { canary }
        };
        match read_failure(start) {
            None => Ok(Self {
                pid,
                group,
                family: Family::of_children_but(older, pid, own_group),
                is_reaped: false,
            }),
            Some(failure) => {
                waitpid(pid, None)?;
                Err(match failure {
                    Failure::Execution(errno) => cannot_execute(&command.words[0], errno),
                    Failure::Preparation(errno) => anyhow::Error::new(errno).context(STARTING),
                })
            }
        }
    }

    pub fn pid(&self) -> i32 {
        self.pid.as_raw()
    }

    /// Passes a signal on, unless the command got it together with pglock; whether it was passed on.
    pub fn forward(&self, caught: Caught) -> bool {
        let sent = match &self.group {
            Group::Own => send(self.leaders(), caught.signal),
            Group::Shared { .. } if self.is_reaped => return false,
            Group::Shared { canary } => {
                let is_in_group = getpgid(Some(self.pid)) == Ok(getpgrp());
                if was_group_hit(canary.as_ref(), caught) && is_in_group {
                    return false;
                }
                send([self.pid], caught.signal)
            }
        };
        sent.is_ok()
    }

    /// Sends `signal` once to the command, its group and all its descendants, and wakes who is stopped.
    ///
    /// The error is why somebody could not be signalled; the others were.
    pub fn signal_all(&mut self, signal: Signal) -> nix::Result<()> {
        self.family.signal(signal)
    }

    /// Whether anything that belongs to the command is still there; a child of pglock's counts until it is
    /// reaped.
    pub fn has_family(&mut self) -> bool {
        !self.is_reaped || !self.family.is_gone()
    }

    /// The command's group, and the command itself where it has left it.
    fn leaders(&self) -> impl Iterator<Item = Pid> {
        let has_left = !self.is_reaped && getpgid(Some(self.pid)) != Ok(self.pid);
        [as_group(self.pid)]
            .into_iter()
            .chain(has_left.then_some(self.pid))
    }

    /// Reaps every child that has ended, orphans that became ours among them; how the command ended, if it
    /// did.
    pub fn reap(&mut self) -> nix::Result<Option<CommandEnd>> {
        let mut end = None;
        while let Some((pid, status)) = reap_any()? {
            if pid == self.pid {
                end = Some(end_of(status));
            }
        }
        if end.is_some() {
            self.is_reaped = true;
            if let Group::Shared { canary } = &self.group {
                canary.iter().for_each(Canary::dismiss);
            }
        }
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

/// Starts a process in the memory of this one, which stands still until that has become the command or has ended, as
/// `posix_spawn(3)` does: nothing is copied, and no page has to be copied when it is written to next. While the kernel reads the command's
/// file pglock can be ended by KILL alone, as the command then could.
fn start_in_our_memory(newborn: &Newborn<'_>) -> nix::Result<Pid> {
    let mut stack = vec![0; CHILD_STACK];
    let flags = CloneFlags::CLONE_VM | CloneFlags::CLONE_VFORK;
    // SAFETY: the child never returns, runs on a stack of its own and calls nothing but the kernel: it allocates nothing and takes
    // no lock, so that wherever it is killed it leaves this memory as it was.
    #[expect(unsafe_code, reason = "clone(2) has no safe form")]
    let child = unsafe {
        clone(
            Box::new(|| newborn.turn_into_command()),
            &mut stack,
            flags,
            Some(libc::SIGCHLD),
        )
    };
    child
}

/// Starts a process in a copy of this one's memory, for a command that must wait until [`image::let_go`].
fn start_in_a_copy(newborn: &Newborn<'_>, start: &OwnedFd) -> nix::Result<Pid> {
    // SAFETY: the child only becomes the command, and never returns; it calls nothing but the kernel.
    #[expect(unsafe_code, reason = "fork(2) has no safe form")]
    let forked = unsafe { fork() }?;
    match forked {
        ForkResult::Child => {
            // Held here, pglock's end would never be seen to end.
            let _ = close(start.as_raw_fd());
            newborn.turn_into_command()
        }
        ForkResult::Parent { child } => Ok(child),
    }
}

/// The next child that has ended, if any has: its pid and wait status.
fn reap_any() -> nix::Result<Option<(Pid, i32)>> {
    let mut status = 0;
    // SAFETY: the kernel writes the status, if any, into a live integer.
    #[expect(unsafe_code, reason = "nix refuses real-time signals here")]
    let waited = unsafe { libc::waitpid(-1, &raw mut status, libc::WNOHANG) };
    match Errno::result(waited) {
        Ok(0) | Err(Errno::ECHILD) => Ok(None),
        Ok(pid) => Ok(Some((Pid::from_raw(pid), status))),
        Err(error) => Err(error),
    }
}

/// How a process ended (wait(2)): without WUNTRACED and WCONTINUED it did.
fn end_of(status: i32) -> CommandEnd {
    if libc::WIFSIGNALED(status) {
        return CommandEnd::Killed {
            signal: libc::WTERMSIG(status),
        };
    }
    // The low 8 bits of what it passed to exit(3).
    CommandEnd::Exited(libc::WEXITSTATUS(status).to_le_bytes()[0])
}

/// Whether everybody in pglock's group got the signal that it caught.
fn was_group_hit(canary: Option<&Canary>, caught: Caught) -> bool {
    canary
        .and_then(|canary| canary.was_hit(caught.signal))
        .unwrap_or_else(|| is_from_terminal(caught))
}

/// Whether the terminal sent the signal, as far as the signal tells: to its whole foreground group, but to the session
/// leader alone when it hangs up (setsid(2)).
fn is_from_terminal(caught: Caught) -> bool {
    let by_terminal = matches!(
        caught.signal,
        Signal::SIGINT | Signal::SIGQUIT | Signal::SIGHUP | Signal::SIGCONT | Signal::SIGWINCH
    );
    let hung_up = caught.signal == Signal::SIGHUP && getsid(None) == Ok(getpid());
    caught.from_kernel && by_terminal && !hung_up
}

fn cannot_execute(program: &OsStr, errno: Errno) -> anyhow::Error {
    let program = text::printable(&program.to_string_lossy());
    let why = text::of_errno(errno);
    match errno {
        Errno::ENOENT => {
            let is_script = program.contains([' ', '|', ';', '&', '<', '>', '=', '$']);
            let hint = if is_script {
                "; -c STRING runs a line of the shell's"
            } else {
                ""
            };
            Fault::CommandNotFound.error(format!("{program}: command not found{hint}"))
        }
        _ => Fault::CannotExecute.error(format!("{program}: cannot execute: {why}")),
    }
}

/// What the child reported, or `None` when exec closed the socket; so does the end of a child that was killed.
fn read_failure(start: OwnedFd) -> Option<Failure> {
    let mut bytes = Vec::new();
    // What was read before an error counts: a socket is reset when its owner dies.
    let _ = File::from(start).read_to_end(&mut bytes);
    Some(Failure::from_bytes(bytes.try_into().ok()?))
}
