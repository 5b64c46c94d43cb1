//! Signals: what was inherited, what is caught, and what a command is given back.
//!
//! Every signal that concerns a wrapper is blocked before anything can miss it and read from a
//! signalfd(2), which keeps the sender's `si_code`. A signal that was already ignored is left alone: blocked, it
//! would be queued all the same.

use std::io;
use std::sync::atomic::{AtomicU8, Ordering};

use nix::libc;
use nix::sys::signal::{
    SaFlags, SigAction, SigHandler, SigSet, SigmaskHow, Signal, raise, sigaction, sigprocmask,
};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Signals that are passed on to the command, and that end a wait unless [`ends_a_wait`] says no.
///
/// All standard signals that would end pglock by default, and two that tell a command something; those that tell
/// of pglock's own faults (SEGV, ABRT …) are not among them.
const FORWARDED: [Signal; 16] = [
    Signal::SIGTERM,
    Signal::SIGINT,
    Signal::SIGHUP,
    Signal::SIGQUIT,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
    Signal::SIGALRM,
    Signal::SIGVTALRM,
    Signal::SIGPROF,
    Signal::SIGXCPU,
    Signal::SIGXFSZ,
    Signal::SIGIO,
    Signal::SIGPWR,
    Signal::SIGSTKFLT,
    Signal::SIGCONT,
    Signal::SIGWINCH,
];

/// CONT and WINCH do nothing by default, so they end nothing.
fn ends_a_wait(signal: Signal) -> bool {
    !matches!(signal, Signal::SIGCONT | Signal::SIGWINCH)
}

/// What pglock was started with, as far as its own start-up changes it.
#[derive(Clone, Copy, Debug)]
pub struct Inherited {
    mask: SigSet,
    ignored_child_signal: bool,
    /// What is blocked now, to be read by [`Signals`].
    caught: SigSet,
}

/// The caught signals of this process.
#[derive(Debug)]
pub struct Signals {
    queue: AsyncFd<SignalFd>,
}

/// A signal that arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caught {
    pub signal: Signal,
    /// Sent by the kernel, as the terminal's signals are, and so to the whole foreground group.
    pub from_kernel: bool,
}

/// Blocks the signals that pglock reads, and returns what a command must be given back.
///
/// Call it before anything else: a signal that arrives earlier has its default effect.
/// SIGCHLD inherited as ignored is reset, or wait(2) would find no child.
pub fn block() -> io::Result<Inherited> {
    let heeded = FORWARDED.into_iter().filter(|signal| !is_ignored(*signal));
    let caught: SigSet = heeded.chain([Signal::SIGCHLD]).collect();
    let mut mask = SigSet::empty();
    sigprocmask(SigmaskHow::SIG_BLOCK, Some(&caught), Some(&mut mask))?;
    let before = set_disposition(Signal::SIGCHLD, SigHandler::SigDfl)?;
    Ok(Inherited {
        mask,
        ignored_child_signal: matches!(before, SigHandler::SigIgn),
        caught,
    })
}

fn set_disposition(signal: Signal, handler: SigHandler) -> nix::Result<SigHandler> {
    let action = SigAction::new(handler, SaFlags::empty(), SigSet::empty());
    // SAFETY: the handlers given here are only SIG_DFL and SIG_IGN, which run no code of ours.
    #[expect(unsafe_code, reason = "sigaction(2) has no safe form")]
    let before = unsafe { sigaction(signal, &action) }?;
    Ok(before.handler())
}

/// Whether the disposition of `signal` is `SIG_IGN`. Uses nothing that Rust's start-up would have to set up.
fn is_ignored(signal: Signal) -> bool {
    let mut action = std::mem::MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: a null new action changes nothing, and the kernel fills in the old one.
    #[expect(unsafe_code, reason = "nix cannot ask without setting")]
    let asked = unsafe { libc::sigaction(signal as i32, std::ptr::null(), action.as_mut_ptr()) };
    // SAFETY: zeroes are a valid sigaction, and the kernel has overwritten them if the call succeeded.
    #[expect(unsafe_code, reason = "a C structure that was initialised above")]
    let action = unsafe { action.assume_init() };
    asked == 0 && action.sa_sigaction == libc::SIG_IGN
}

impl Inherited {
    /// Gives the calling process back the mask and the dispositions that pglock was started with.
    ///
    /// Async-signal-safe, without allocating: for a child before execve(2).
    pub fn restore(&self) -> nix::Result<()> {
        if self.ignored_child_signal {
            set_disposition(Signal::SIGCHLD, SigHandler::SigIgn)?;
        }
        let pipe = if start::sigpipe_was_ignored() {
            SigHandler::SigIgn
        } else {
            SigHandler::SigDfl
        };
        set_disposition(Signal::SIGPIPE, pipe)?;
        self.unblock()
    }

    /// Lets signals do again what they did before [`block`].
    pub fn unblock(&self) -> nix::Result<()> {
        sigprocmask(SigmaskHow::SIG_SETMASK, Some(&self.mask), None)
    }
}

impl Signals {
    /// Starts reading the signals that [`block`] blocked; needs a runtime.
    pub fn open(inherited: &Inherited) -> io::Result<Self> {
        let flags = SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC;
        let fd = SignalFd::with_flags(&inherited.caught, flags)?;
        // SAFETY: SignalFd owns its descriptor and closes it only when dropped.
        #[expect(unsafe_code, reason = "tokio asks for this promise")]
        let queue = unsafe { AsyncFd::register_with_interest(fd, Interest::READABLE) }?;
        Ok(Self { queue })
    }

    /// The next signal, SIGCHLD among them. Cancel-safe.
    pub async fn next(&mut self) -> io::Result<Caught> {
        loop {
            let mut ready = self.queue.readable_mut().await?;
            let read = ready.try_io(|queue| {
                let info = queue.get_mut().read_signal()?;
                info.ok_or_else(|| io::ErrorKind::WouldBlock.into())
            });
            let Ok(info) = read else { continue };
            let info = info?;
            let signal = i32::try_from(info.ssi_signo).map_err(io::Error::other)?;
            return Ok(Caught {
                signal: Signal::try_from(signal)?,
                from_kernel: info.ssi_code > 0,
            });
        }
    }

    /// The next signal whose default effect is to end a process. Cancel-safe.
    pub async fn next_ending(&mut self) -> io::Result<Signal> {
        loop {
            let signal = self.next().await?.signal;
            if ends_a_wait(signal) && signal != Signal::SIGCHLD {
                return Ok(signal);
            }
        }
    }
}

/// Ends this process by the default effect of `signal`, but leaves no core behind; returns where it has none.
pub fn die_of(signal: Signal) -> nix::Result<()> {
    nix::sys::prctl::set_dumpable(false)?;
    set_disposition(signal, SigHandler::SigDfl)?;
    raise(signal)?;
    let unblocked: SigSet = [signal].into_iter().collect();
    sigprocmask(SigmaskHow::SIG_UNBLOCK, Some(&unblocked), None)
}

/// Which of the descriptors 0, 1 and 2 were closed when the process started.
pub fn closed_at_start() -> impl Iterator<Item = i32> {
    (0..3).filter(|fd| start::was_closed(*fd))
}

/// What Rust's own start-up code changes before `main`, recorded before it does: it ignores SIGPIPE and
/// opens /dev/null on a closed descriptor 0, 1 or 2.
mod start {
    use super::{AtomicU8, Ordering, Signal, is_ignored, libc};

    static RECORD: AtomicU8 = AtomicU8::new(0);
    const SIGPIPE_IGNORED: u8 = 1 << 3;

    pub(super) fn sigpipe_was_ignored() -> bool {
        RECORD.load(Ordering::Relaxed) & SIGPIPE_IGNORED != 0
    }

    pub(super) fn was_closed(fd: i32) -> bool {
        RECORD.load(Ordering::Relaxed) & (1 << fd) != 0
    }

    extern "C" fn record() {
        let mut record = 0;
        for fd in 0..3 {
            // SAFETY: F_GETFD takes no pointer and only looks at a descriptor number.
            #[expect(unsafe_code, reason = "safe wrappers need an open descriptor")]
            let flags = unsafe { libc::fcntl(fd, libc::F_GETFD) };
            record |= u8::from(flags == -1) << fd;
        }
        record |= u8::from(is_ignored(Signal::SIGPIPE)) * SIGPIPE_IGNORED;
        RECORD.store(record, Ordering::Relaxed);
    }

    // SAFETY: the C library calls each entry of .init_array once, before `main` and any thread; `record`
    // uses nothing that Rust's start-up would have to set up first.
    #[expect(unsafe_code, reason = "the only hook before Rust's start-up code")]
    #[unsafe(link_section = ".init_array")]
    #[used]
    static RECORD_AT_START: extern "C" fn() = record;
}
