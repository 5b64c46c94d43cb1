//! The guardian: a small process that keeps the session's socket, and so the lock, when pglock itself is killed,
//! until the command has ended.
//!
//! The command hands it the socket and a descriptor of itself (`pidfd_open(2)`) in the moment before it becomes
//! the command: there is none without its guardian knowing of it. As long as pglock lives the guardian only looks on.

mod process;
mod state;

use std::io::{self, IoSlice};
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};

use nix::errno::Errno;
use nix::libc;
use nix::unistd::{Pid, getpid};
use socket2::{MsgHdr, SockRef};

use crate::attendant::{Attendant, open_process};
use crate::lease::Terms;

/// pglock's end of its guardian, which ends with this value.
#[derive(Debug)]
pub struct Guardian {
    attendant: Attendant,
}

/// What the command does for its guardian before it becomes the command.
#[derive(Clone, Copy, Debug)]
pub struct HandOver<'a> {
    pub guardian: Pid,
    control: BorrowedFd<'a>,
    /// The socket of the session that holds the lock.
    session: BorrowedFd<'a>,
}

/// A message's control data with two descriptors (cmsg(3), unix(7)).
type Rights = [u8; size_of::<libc::cmsghdr>() + size_of::<[RawFd; 2]>()];

/// Whether the command leads a process group of its own, as it is told to the guardian.
const SHARED_GROUP: u8 = 0;
const OWN_GROUP: u8 = 1;

impl Guardian {
    /// Starts a guardian that will stop the command on these terms if the lock is lost without pglock.
    ///
    /// `None` where `pidfd_open(2)` is missing (Linux before 5.4) or forbidden.
    pub fn start(terms: Terms) -> io::Result<Option<Self>> {
        let wrapper = getpid();
        let attendant = Attendant::start(c"lock-guardian", |control| {
            process::guard(control, wrapper, terms);
        })?;
        Ok(attendant.map(|attendant| Self { attendant }))
    }

    /// What the command is to hand over, with the socket of the session that holds the lock.
    pub fn hand_over<'a>(&'a self, session: BorrowedFd<'a>) -> HandOver<'a> {
        HandOver {
            guardian: self.attendant.pid(),
            control: self.attendant.control(),
            session,
        }
    }

    /// Whether it was killed, or has ended by some fault.
    pub fn has_ended(&self) -> bool {
        self.attendant.has_ended()
    }

    /// Ends the guardian, which is no longer needed once the command has ended, and does not wait for that.
    pub fn dismiss(&self) {
        // One that cannot be signalled sees the end of pglock.
        let _ = self.attendant.dismiss();
    }
}

impl HandOver<'_> {
    /// Called by the process that is about to become the command: allocates nothing. The error is why the guardian could not be told: the
    /// command is not to run then. With a guardian that was killed in this moment it is still pglock's.
    pub fn send(self, own_group: bool) -> nix::Result<()> {
        let this = open_process(getpid())?;
        let group = if own_group { OWN_GROUP } else { SHARED_GROUP };
        let [a, b, c, d] = getpid().as_raw().to_ne_bytes();
        let said = [group, a, b, c, d];
        let said = [IoSlice::new(&said)];
        let rights = rights([self.session.as_raw_fd(), this.as_raw_fd()]);
        let message = MsgHdr::new().with_buffers(&said).with_control(&rights);
        if SockRef::from(&self.control)
            .sendmsg(&message, libc::MSG_NOSIGNAL)
            .is_ok()
        {
            return Ok(());
        }
        match Errno::last() {
            Errno::EPIPE | Errno::ECONNRESET => Ok(()),
            errno => Err(errno),
        }
    }
}

/// A `struct cmsghdr`, which has no padding before its data, and its data.
fn rights(descriptors: [RawFd; 2]) -> Rights {
    let mut rights: Rights = [0; size_of::<Rights>()];
    let length = size_of::<Rights>().to_ne_bytes();
    let level = libc::SOL_SOCKET.to_ne_bytes();
    let kind = libc::SCM_RIGHTS.to_ne_bytes();
    let [first, second] = descriptors.map(RawFd::to_ne_bytes);
    let fields = length
        .into_iter()
        .chain(level)
        .chain(kind)
        .chain(first)
        .chain(second);
    for (at, byte) in rights.iter_mut().zip(fields) {
        *at = byte;
    }
    rights
}
