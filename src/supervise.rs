//! One loop over the command, the session, signals and the grace; what to do is decided by a pure function
//! of the events.

mod state;

use std::pin::{Pin, pin};
use std::time::Duration;

use nix::sys::signal::Signal;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::{Instant, sleep, sleep_until};

pub use self::state::End;
use self::state::{Action, Event, State};
use crate::child::Child;
use crate::key::Lock;
use crate::lease::{OnLost, Terms};
use crate::report::{self, Reporter};
use crate::requester::Requester;
use crate::session::{Asking, HeldLock};
use crate::signals::{Caught, Signals};
use crate::text;

/// How often to look whether a command that is being stopped has gone: not everything of it is our child, whose
/// end would wake us.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// Who watches a command, and on which terms.
pub struct Supervisor<'a> {
    pub child: &'a mut Child,
    pub signals: &'a mut Signals,
    /// Those who ask for the lock.
    pub asking: UnboundedReceiver<Asking>,
    pub terms: Terms,
    /// When the command has run as long as it may.
    pub overruns: Option<Instant>,
    /// What asked pglock to end while the command ran: a TERM, or else the last INT or QUIT.
    pub told_to_end: Option<Signal>,
    pub report: &'a Reporter,
    pub lock: &'a Lock,
}

/// How the keeping of a lock without a command ended.
pub enum Kept {
    /// For as long as it was to be, or until a signal came.
    Enough,
    /// Somebody asked for it.
    Asked(Requester),
    /// It was lost, for this cause.
    Lost(String),
}

impl Supervisor<'_> {
    /// Watches until the command has ended, or until everything of it is dead because the lock was lost first.
    pub async fn watch(&mut self, held: &mut HeldLock) -> anyhow::Result<End> {
        let running = State::Running(self.terms.on_lost);
        self.until_the_end(running, pin!(held.lost())).await
    }

    /// Stops what the command has left, where only its release showed that the lock was lost: it may have been lost
    /// while the command ran.
    pub async fn stop_the_rest(&mut self) -> anyhow::Result<()> {
        if self.terms.on_lost == OnLost::Warn || !self.child.has_family() {
            return Ok(());
        }
        let running = State::Running(OnLost::Stop);
        let lost = std::future::ready(String::new());
        self.until_the_end(running, pin!(lost)).await.map(drop)
    }

    /// Keeps the lock until then, though the command has ended, unless it is asked for, or a signal asks to end.
    pub async fn hold_until(&mut self, held: &mut HeldLock, end: Instant) -> anyhow::Result<Kept> {
        let mut lost = pin!(held.lost());
        loop {
            tokio::select! {
                biased;
                caught = self.signals.next() => match caught?.signal {
                    Signal::SIGCHLD => drop(self.child.reap()?),
                    Signal::SIGTERM | Signal::SIGINT | Signal::SIGHUP | Signal::SIGQUIT => return Ok(Kept::Enough),
                    _ => {}
                },
                cause = &mut lost => return Ok(Kept::Lost(cause)),
                by = asked(&mut self.asking, self.report, self.lock) => return Ok(Kept::Asked(by)),
                () = sleep_until(end) => return Ok(Kept::Enough),
            }
        }
    }

    async fn until_the_end(
        &mut self,
        mut state: State,
        mut lost: Pin<&mut impl Future<Output = String>>,
    ) -> anyhow::Result<End> {
        let Self {
            child,
            signals,
            asking,
            terms,
            overruns,
            told_to_end,
            report,
            lock,
        } = self;
        let mut grace_ends = None;
        loop {
            let event = tokio::select! {
                biased;
                () = sleep_until(grace_ends.unwrap_or_else(Instant::now)), if grace_ends.is_some() => Event::GraceOver,
                caught = signals.next() => match caught? {
                    Caught { signal: Signal::SIGCHLD, .. } => Event::Reaped {
                        command: child.reap()?,
                        family_left: state.is_stopping() && child.has_family(),
                    },
                    caught => Event::Signal(caught),
                },
                () = sleep_until(overruns.unwrap_or_else(Instant::now)), if overruns.is_some() && state.can_overrun() => Event::Overran,
                cause = &mut lost, if state.is_held() => Event::Lost(cause),
                by = asked(asking, report, lock), if state.can_be_asked() => Event::Asked(by),
                () = sleep(LOOK_AGAIN), if state.is_stopping() => Event::Reaped {
                    command: None,
                    family_left: child.has_family(),
                },
            };
            match state.on_event(event) {
                Action::Nothing => {}
                Action::Forward(caught) => {
                    // HUP is left out: to many programs it means to go on with another configuration.
                    if matches!(
                        caught.signal,
                        Signal::SIGTERM | Signal::SIGINT | Signal::SIGQUIT
                    ) && *told_to_end != Some(Signal::SIGTERM)
                    {
                        *told_to_end = Some(caught.signal);
                    }
                    if child.forward(caught) {
                        report.detail(|| format!("passed {} on", caught.signal));
                    }
                }
                Action::Warn(cause) => {
                    report::line_unless_blocked(&format!(
                        "{lock} was lost: {cause}; the command goes on without it"
                    ));
                }
                Action::Terminate => {
                    report.detail(|| "stopping the command".to_owned());
                    complain(child.signal_all(Signal::SIGTERM));
                    grace_ends = Some(Instant::now() + terms.grace);
                }
                Action::Kill => {
                    let killed = child.signal_all(Signal::SIGKILL);
                    if grace_ends.take().is_some() {
                        report.detail(|| "the grace is over: killing what is left".to_owned());
                        complain(killed);
                    }
                }
                Action::Finish(end) => return Ok(end),
            }
        }
    }
}

/// The next who asks for the lock and may; for the others it says that they were ignored. Cancel-safe.
async fn asked(
    asking: &mut UnboundedReceiver<Asking>,
    report: &Reporter,
    lock: &Lock,
) -> Requester {
    while let Some(Asking { requester, may }) = asking.recv().await {
        if may {
            report.detail(|| format!("{requester} asks for {lock}"));
            return requester;
        }
        report.detail(|| {
            format!("{requester} asks for {lock}, but may not end this session: ignored")
        });
    }
    // Whoever looks for them has ended, and says why.
    std::future::pending().await
}

/// Tells why the command cannot be stopped: it may run as another user.
fn complain(signalled: nix::Result<()>) {
    if let Err(error) = signalled {
        report::line_unless_blocked(&format!(
            "cannot stop the command: {}",
            text::of_errno(error)
        ));
    }
}
