//! A process of pglock's own that attends a command: forked without what is pglock's, and ended with its value.

use std::ffi::CStr;
use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use nix::errno::Errno;
use nix::fcntl::{OFlag, open};
use nix::libc;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, SigmaskHow, sigprocmask};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socketpair};
use nix::sys::stat::Mode;
use nix::sys::wait::{Id, WaitPidFlag, waitid};
use nix::unistd::{
    ForkResult, Pid, chdir, close, dup2_stderr, dup2_stdin, dup2_stdout, fork, getpid,
};

/// The process, which ends with this value.
#[derive(Debug)]
pub struct Attendant {
    pid: Pid,
    /// The process itself: a number could be another's by now.
    handle: OwnedFd,
    /// Its end tells the process that pglock has ended.
    control: OwnedFd,
}

impl Attendant {
    /// Forks a process of this name that does `work` with its end of the control socket, and then ends.
    ///
    /// All signals are blocked there. `None` where the kernel has no `pidfd_open(2)` (Linux before 5.4, which can also wait for one), or a
    /// container's filter of system calls forbids it.
    pub fn start(name: &CStr, work: impl FnOnce(&OwnedFd)) -> io::Result<Option<Self>> {
        match open_process(getpid()) {
            Ok(_) => {}
            Err(Errno::ENOSYS | Errno::EPERM) => return Ok(None),
            Err(errno) => return Err(errno.into()),
        }
        let (control, theirs) = socketpair(
            AddressFamily::Unix,
            SockType::SeqPacket,
            None,
            SockFlag::SOCK_CLOEXEC,
        )?;
        // SAFETY: the child never returns here; it calls the kernel and malloc(3), which the C library keeps usable
        // in the child of a process with threads.
        #[expect(unsafe_code, reason = "fork(2) has no safe form")]
        let forked = unsafe { fork() }?;
        match forked {
            ForkResult::Child => {
                // Held here, pglock's end would never be seen to end.
                drop(control);
                attend(name, &theirs, work)
            }
            ForkResult::Parent { child } => Ok(Some(Self {
                pid: child,
                handle: open_process(child)?,
                control,
            })),
        }
    }

    pub fn pid(&self) -> Pid {
        self.pid
    }

    /// pglock's end of the control socket, which keeps the bounds of messages.
    pub fn control(&self) -> BorrowedFd<'_> {
        self.control.as_fd()
    }

    /// Whether it was killed, or has ended by some fault.
    pub fn has_ended(&self) -> bool {
        let mut polled = [PollFd::new(self.handle.as_fd(), PollFlags::POLLIN)];
        poll(&mut polled, PollTimeout::ZERO).is_ok_and(|ended| ended > 0)
    }

    /// Ends the process, and does not wait for that.
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
impl Drop for Attendant {
    fn drop(&mut self) {
        // One that could not be signalled ends once the control socket is closed, which is after this.
        if self.dismiss().is_ok() || self.has_ended() {
            let _ = waitid(Id::PIDFd(self.handle.as_fd()), WaitPidFlag::WEXITED);
        }
    }
}

/// A descriptor of a process, which becomes readable when it ends (`pidfd_open(2)`).
pub fn open_process(pid: Pid) -> nix::Result<OwnedFd> {
    // SAFETY: the call takes no pointer.
    #[expect(unsafe_code, reason = "pidfd_open(2) has no wrapper")]
    let opened = unsafe { libc::syscall(libc::SYS_pidfd_open, pid.as_raw(), 0) };
    let descriptor = Errno::result(opened)?;
    let descriptor = RawFd::try_from(descriptor).map_err(|_| Errno::EBADF)?;
    // SAFETY: the kernel has just opened it, close-on-exec, for nobody else.
    #[expect(unsafe_code, reason = "the kernel gives a bare number")]
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

/// The life of the forked process.
fn attend(name: &CStr, control: &OwnedFd, work: impl FnOnce(&OwnedFd)) -> ! {
    if detach(name, control).is_ok() {
        work(control);
    }
    // SAFETY: _exit(2) ends the process at once, runs none of pglock's handlers, and closes what is open.
    #[expect(unsafe_code, reason = "_exit(2) has no safe form")]
    unsafe {
        libc::_exit(0)
    }
}

/// Leaves what is pglock's: its signals, streams, descriptors and directory.
fn detach(name: &CStr, control: &OwnedFd) -> nix::Result<()> {
    sigprocmask(SigmaskHow::SIG_BLOCK, Some(&SigSet::all()), None)?;
    let _ = nix::sys::prctl::set_name(name);
    let _ = chdir("/");
    if let Ok(null) = open("/dev/null", OFlag::O_RDWR, Mode::empty()) {
        dup2_stdin(&null)?;
        dup2_stdout(&null)?;
        dup2_stderr(&null)?;
    }
    close_others(control.as_raw_fd())
}

/// Closes every descriptor from 3 on but this one; the error is that some may still be open.
fn close_others(kept: RawFd) -> nix::Result<()> {
    close_ranges(kept.cast_unsigned()).or_else(|_| close_one_by_one(kept))
}

fn close_ranges(kept: u32) -> nix::Result<()> {
    for (first, last) in [(3, kept.saturating_sub(1)), (kept + 1, u32::MAX)] {
        if first <= last {
            // SAFETY: whatever owned them is not run any more in this process: it ends in `attend`.
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
