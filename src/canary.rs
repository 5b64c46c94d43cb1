//! The canary: a process that has nothing in common with the command but its process group, and so tells whether a
//! signal that pglock caught was sent to the whole group, by the terminal or by kill(2), and has reached the command.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::socket::{MsgFlags, recv, send};
use nix::unistd::{Pid, read, write};

use crate::attendant::Attendant;

/// How many milliseconds the canary may get a signal later than pglock. Linux signals the youngest of a group first,
/// but promises that nowhere; whoever signals pglock alone waits this long.
const LATENESS: u8 = 1;

/// How many milliseconds to wait for an answer: one that was stopped gives none, and on a busy machine it takes its time.
const PATIENCE: u16 = 500;

/// pglock's canary, which ends with this value.
#[derive(Debug)]
pub struct Canary {
    attendant: Attendant,
}

impl Canary {
    /// Starts a canary in the process group of this process.
    ///
    /// `None` where the kernel has no `pidfd_open(2)` (Linux before 5.4).
    pub fn start() -> io::Result<Option<Self>> {
        let attendant = Attendant::start(c"lock-canary", answer)?;
        Ok(attendant.map(|attendant| Self { attendant }))
    }

    pub fn pid(&self) -> Pid {
        self.attendant.pid()
    }

    /// Whether `signal`, which this process has just caught, was sent to the canary as well; `None` if it does not answer.
    ///
    /// Ask for each signal that was caught: the canary remembers it until it is asked.
    pub fn was_hit(&self, signal: Signal) -> Option<bool> {
        let control = self.attendant.control();
        let socket = control.as_raw_fd();
        let mut answer = [0];
        let receive = |answer: &mut [u8]| recv(socket, answer, MsgFlags::MSG_DONTWAIT);
        // What comes too late answers nothing any more.
        while receive(&mut answer) == Ok(1) {}
        let question = (signal as i32).to_ne_bytes();
        let flags = MsgFlags::MSG_NOSIGNAL | MsgFlags::MSG_DONTWAIT;
        send(socket, &question, flags).ok()?;
        poll(
            &mut [PollFd::new(control, PollFlags::POLLIN)],
            PollTimeout::from(PATIENCE),
        )
        .ok()?;
        (receive(&mut answer) == Ok(1)).then_some(answer == [1])
    }

    /// Ends the canary, which is no longer needed once the command has ended, and does not wait for that.
    pub fn dismiss(&self) {
        // One that cannot be signalled goes with pglock.
        let _ = self.attendant.dismiss();
    }
}

/// The canary's life: whether each signal that it is asked for is pending, until pglock ends.
fn answer(control: &OwnedFd) {
    // One that was stopped would not see the end of the socket.
    let _ = nix::sys::prctl::set_pdeathsig(Signal::SIGKILL);
    let mut question = [0; 4];
    while read(control, &mut question) == Ok(question.len()) {
        let is_hit = Signal::try_from(i32::from_ne_bytes(question)).and_then(take_pending);
        let _ = write(control, &[u8::from(is_hit == Ok(true))]);
    }
}

/// Whether the signal, which is blocked, was sent to this process; once taken it is not pending any more.
fn take_pending(signal: Signal) -> nix::Result<bool> {
    let wanted: SigSet = [signal].into_iter().collect();
    let queue = SignalFd::with_flags(&wanted, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)?;
    let lateness = PollTimeout::from(LATENESS);
    poll(
        &mut [PollFd::new(queue.as_fd(), PollFlags::POLLIN)],
        lateness,
    )?;
    Ok(queue.read_signal()?.is_some())
}
