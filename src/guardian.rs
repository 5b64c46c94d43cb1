//! The guardian: a small process that keeps the session's socket, and so the lock, when pglock itself is killed,
//! until the command has ended.
//!
//! The command hands it the socket and a descriptor of itself (`pidfd_open(2)`) in the moment before it becomes
//! the command: there is none without its guardian knowing of it. As long as pglock lives the guardian only looks on.

mod process;
mod state;

use std::io::{self, IoSlice};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use nix::errno::Errno;
use nix::libc;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{
    AddressFamily, ControlMessage, MsgFlags, SockFlag, SockType, sendmsg, socketpair,
};
use nix::sys::wait::{Id, WaitPidFlag, waitid};
use nix::unistd::{ForkResult, Pid, fork, getpid};

use crate::lease::Terms;

/// pglock's end of its guardian, which ends with this value.
#[derive(Debug)]
pub struct Guardian {
    process: Pid,
    /// The process itself: a number could be another's by now.
    handle: OwnedFd,
    /// Its end tells the guardian that pglock has ended.
    control: OwnedFd,
}

/// What the command does for its guardian before it becomes the command.
#[derive(Clone, Copy, Debug)]
pub struct HandOver<'a> {
    pub guardian: Pid,
    control: BorrowedFd<'a>,
    /// The socket of the session that holds the lock.
    session: BorrowedFd<'a>,
}

/// Whether the command leads a process group of its own, as it is told to the guardian.
const SHARED_GROUP: u8 = 0;
const OWN_GROUP: u8 = 1;

impl Guardian {
    /// Starts a guardian that will stop the command on these terms if the lock is lost without pglock.
    ///
    /// `None` where the kernel has no `pidfd_open(2)` (Linux before 5.4, which can also wait for one).
    pub fn start(terms: Terms) -> io::Result<Option<Self>> {
        if open_process(getpid()).is_err() {
            return Ok(None);
        }
        let (control, theirs) = socketpair(
            AddressFamily::Unix,
            SockType::SeqPacket,
            None,
            SockFlag::SOCK_CLOEXEC,
        )?;
        let wrapper = getpid();
        // SAFETY: the child never returns here; it calls the kernel and malloc(3), which the C library keeps usable
        // in the child of a process with threads.
        #[expect(unsafe_code, reason = "fork(2) has no safe form")]
        let forked = unsafe { fork() }?;
        match forked {
            ForkResult::Child => {
                // Held here, pglock's end would never be seen to end.
                drop(control);
                process::guard(theirs, wrapper, terms)
            }
            ForkResult::Parent { child } => Ok(Some(Self {
                process: child,
                handle: open_process(child)?,
                control,
            })),
        }
    }

    /// What the command is to hand over, with the socket of the session that holds the lock.
    pub fn hand_over<'a>(&'a self, session: BorrowedFd<'a>) -> HandOver<'a> {
        HandOver {
            guardian: self.process,
            control: self.control.as_fd(),
            session,
        }
    }

    /// Whether it was killed, or has ended by some fault.
    pub fn has_ended(&self) -> bool {
        let mut polled = [PollFd::new(self.handle.as_fd(), PollFlags::POLLIN)];
        poll(&mut polled, PollTimeout::ZERO).is_ok_and(|ended| ended > 0)
    }

    /// Ends the guardian, which is no longer needed once the command has ended, and does not wait for that; whether
    /// that could be done.
    pub fn dismiss(&self) -> nix::Result<()> {
        let handle = self.handle.as_raw_fd();
        let no_info = std::ptr::null::<libc::siginfo_t>();
        // SAFETY: the descriptor is open as long as `self`, and a null pointer asks for no details.
        #[expect(unsafe_code, reason = "pidfd_send_signal(2) has no wrapper")]
        let sent = unsafe {
            libc::syscall(
                libc::SYS_pidfd_send_signal,
                handle,
                libc::SIGKILL,
                no_info,
                0,
            )
        };
        Errno::result(sent).map(drop)
    }
}

/// Whoever runs pglock may not reap what it leaves behind.
impl Drop for Guardian {
    fn drop(&mut self) {
        // Without that it ends when the descriptors are closed, which is after this.
        if self.dismiss().is_err() && !self.has_ended() {
            return;
        }
        let _ = waitid(Id::PIDFd(self.handle.as_fd()), WaitPidFlag::WEXITED);
    }
}

impl HandOver<'_> {
    /// Called by the process that is about to become the command. Without a guardian the command is still pglock's.
    pub fn send(self, own_group: bool) {
        let Ok(this) = open_process(getpid()) else {
            return;
        };
        let group = if own_group { OWN_GROUP } else { SHARED_GROUP };
        let descriptors: [RawFd; 2] = [self.session.as_raw_fd(), this.as_raw_fd()];
        let [a, b, c, d] = getpid().as_raw().to_ne_bytes();
        let _ = sendmsg::<()>(
            self.control.as_raw_fd(),
            &[IoSlice::new(&[group, a, b, c, d])],
            &[ControlMessage::ScmRights(&descriptors)],
            MsgFlags::MSG_NOSIGNAL,
            None,
        );
    }
}

/// A descriptor of a process, which becomes readable when it ends (`pidfd_open(2)`).
fn open_process(pid: Pid) -> nix::Result<OwnedFd> {
    // SAFETY: the call takes no pointer.
    #[expect(unsafe_code, reason = "pidfd_open(2) has no wrapper")]
    let opened = unsafe { libc::syscall(libc::SYS_pidfd_open, pid.as_raw(), 0) };
    let descriptor = Errno::result(opened)?;
    let descriptor = RawFd::try_from(descriptor).map_err(|_| Errno::EBADF)?;
    // SAFETY: the kernel has just opened it, close-on-exec, for nobody else.
    #[expect(unsafe_code, reason = "the kernel gives a bare number")]
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}
