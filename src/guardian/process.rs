//! The guardian's own process, from fork(2) to its end.

use std::ffi::CStr;
use std::fs;
use std::io::IoSliceMut;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::time::{Duration, Instant};

use nix::cmsg_space;
use nix::errno::Errno;
use nix::fcntl::{OFlag, open};
use nix::libc;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, SigmaskHow, Signal, sigprocmask};
use nix::sys::socket::{ControlMessageOwned, MsgFlags, recvmsg};
use nix::sys::stat::Mode;
use nix::unistd::{Pid, chdir, close, dup2_stderr, dup2_stdin, dup2_stdout, setsid};

use super::OWN_GROUP;
use super::state::{Action, Event, State};
use crate::family::{self, Family};
use crate::lease::Terms;

/// What ps(1) calls it: not pglock, since whoever kills that by its name must not kill both.
const GUARDIAN: &CStr = c"lock-guardian";

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

/// Becomes the guardian; `wrapper` is the pglock process.
pub fn guard(control: OwnedFd, wrapper: Pid, terms: Terms) -> ! {
    if let Ok(control) = detach(control)
        && let Some(mut ward) = receive(&control)
    {
        watch(&control, &mut ward, wrapper, terms);
    }
    // SAFETY: _exit(2) ends the process at once, runs none of pglock's handlers, and closes the socket.
    #[expect(unsafe_code, reason = "_exit(2) has no safe form")]
    unsafe {
        libc::_exit(0)
    }
}

/// Leaves everything that is pglock's: its session and terminal, streams, descriptors, directory and signals.
fn detach(control: OwnedFd) -> nix::Result<OwnedFd> {
    sigprocmask(SigmaskHow::SIG_BLOCK, Some(&SigSet::all()), None)?;
    setsid()?;
    let _ = nix::sys::prctl::set_name(GUARDIAN);
    let _ = chdir("/");
    if let Ok(null) = open("/dev/null", OFlag::O_RDWR, Mode::empty()) {
        dup2_stdin(&null)?;
        dup2_stdout(&null)?;
        dup2_stderr(&null)?;
    }
    close_others(control.as_raw_fd())?;
    Ok(control)
}

/// Closes every descriptor from 3 on but this one; the error is that some may still be open.
fn close_others(kept: RawFd) -> nix::Result<()> {
    close_ranges(kept.cast_unsigned()).or_else(|_| close_one_by_one(kept))
}

fn close_ranges(kept: u32) -> nix::Result<()> {
    for (first, last) in [(3, kept.saturating_sub(1)), (kept + 1, u32::MAX)] {
        if first <= last {
            // SAFETY: whatever owned them is not run any more in this process: it ends in `guard`.
            #[expect(unsafe_code, reason = "close_range(2) has no wrapper")]
            let closed = unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) };
            Errno::result(closed)?;
        }
    }
    Ok(())
}

/// For Linux before 5.9, and filters of system calls that do not know of the other way.
fn close_one_by_one(kept: RawFd) -> nix::Result<()> {
    let listed = fs::read_dir("/proc/self/fd").map_err(|_| Errno::ENOSYS)?;
    let open: Vec<RawFd> = listed
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect();
    for descriptor in open.into_iter().filter(|fd| *fd > 2 && *fd != kept) {
        // The one that the list was read from is closed already.
        let _ = close(descriptor);
    }
    Ok(())
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
