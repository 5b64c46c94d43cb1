//! The guardian's own process.

use std::io::IoSliceMut;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::time::{Duration, Instant};

use nix::cmsg_space;
use nix::libc;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::Signal;
use nix::sys::socket::{ControlMessageOwned, MsgFlags, recvmsg};
use nix::unistd::{Pid, setsid};

use super::OWN_GROUP;
use super::state::{Action, Event, State};
use crate::family::{self, Family};
use crate::lease::Terms;

/// How often to look at the processes once the session is lost.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// What pglock may take, besides the grace, to stop the command itself.
const MARGIN: Duration = Duration::from_secs(2);

/// What is guarded.
struct Ward {
    session: OwnedFd,
    command: OwnedFd,
    family: Family,
}

/// The guardian's life; `wrapper` is the pglock process.
pub fn guard(control: &OwnedFd, wrapper: Pid, terms: Terms) {
    // What is sent to pglock's process group, or by its terminal, is not meant for the guardian.
    if setsid().is_ok()
        && let Some(mut ward) = receive(control)
    {
        watch(control, &mut ward, wrapper, terms);
    }
}

/// Waits for the command; `None` when there will be none.
fn receive(control: &OwnedFd) -> Option<Ward> {
    let mut bytes = [0; 5];
    let mut space = cmsg_space!([RawFd; 2]);
    let (length, descriptors) = {
        let mut buffers = [IoSliceMut::new(&mut bytes)];
        let flags = MsgFlags::MSG_CMSG_CLOEXEC;
        let received =
            recvmsg::<()>(control.as_raw_fd(), &mut buffers, Some(&mut space), flags).ok()?;
        let descriptors = received.cmsgs().ok()?.find_map(|message| match message {
            ControlMessageOwned::ScmRights(descriptors) => Some(descriptors),
            _ => None,
        });
        (received.bytes, descriptors)
    };
    let [group, pid @ ..] = bytes;
    let [session, command] = descriptors?.try_into().ok()?;
    // SAFETY: the kernel has just put them into this process, for nobody else.
    #[expect(unsafe_code, reason = "recvmsg(2) gives bare numbers")]
    let [session, command] = [session, command].map(|fd| unsafe { OwnedFd::from_raw_fd(fd) });
    let command_pid = Pid::from_raw(i32::from_ne_bytes(pid));
    (length == bytes.len()).then(|| Ward {
        session,
        command,
        family: Family::of_process(command_pid, group == OWN_GROUP),
    })
}

/// Returns when the lock is no longer needed.
fn watch(control: &OwnedFd, ward: &mut Ward, wrapper: Pid, terms: Terms) {
    let Ward {
        session,
        command,
        family,
    } = ward;
    let mut state = State::new(terms.on_lost);
    // Each tells of one event, once.
    let mut awaited = vec![
        (control.as_fd(), PollFlags::POLLIN, Event::WrapperGone),
        (command.as_fd(), PollFlags::POLLIN, Event::CommandEnded),
        // Not whether there is data, which is pglock's.
        (
            session.as_fd(),
            PollFlags::from_bits_retain(libc::POLLRDHUP),
            Event::SessionLost,
        ),
    ];
    let mut grace_ends: Option<Instant> = None;
    // By then pglock itself has stopped the command, if it can.
    let mut pglock_ends: Option<Instant> = None;
    loop {
        let event = if grace_ends.is_some_and(|end| end <= Instant::now()) {
            grace_ends = None;
            Some(Event::GraceOver)
        } else if let Some(at) = wait(&awaited, state.looks()) {
            let event = awaited.swap_remove(at).2;
            if event == Event::SessionLost {
                pglock_ends = Some(Instant::now() + terms.grace + MARGIN);
            }
            Some(event)
        } else {
            state.looks().then(|| Event::Look {
                wrapper_helpless: family::is_stopped(wrapper)
                    || pglock_ends.is_some_and(|end| end <= Instant::now()),
                family_left: !family.is_gone(),
            })
        };
        match event.map_or(Action::Nothing, |event| state.on_event(event)) {
            Action::Nothing => {}
            Action::Terminate => {
                let _ = family.signal(Signal::SIGTERM);
                grace_ends = Some(Instant::now() + terms.grace);
            }
            Action::Kill => drop(family.signal(Signal::SIGKILL)),
            Action::Leave => return,
        }
    }
}

/// Waits for one of these, for a moment only if there is something to look at meanwhile; which it was.
fn wait(awaited: &[(BorrowedFd<'_>, PollFlags, Event)], looks: bool) -> Option<usize> {
    let mut polled: Vec<PollFd<'_>> = awaited
        .iter()
        .map(|(descriptor, flags, _)| PollFd::new(*descriptor, *flags))
        .collect();
    let limit = if looks {
        PollTimeout::try_from(LOOK_AGAIN).unwrap_or(PollTimeout::MAX)
    } else {
        PollTimeout::NONE
    };
    poll(&mut polled, limit).ok()?;
    // nix does not know of POLLRDHUP, and gives nothing where that is set.
    let is_quiet = |polled: &PollFd<'_>| polled.any() == Some(false);
    polled.iter().position(|polled| !is_quiet(polled))
}
