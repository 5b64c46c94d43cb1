//! One loop over the command, the session, signals and the grace; what to do is decided by a pure function
//! of the events.

use std::pin::pin;
use std::time::Duration;

use nix::sys::signal::Signal;
use tokio::time::{Instant, sleep, sleep_until};

use crate::child::Child;
use crate::exit::CommandEnd;
use crate::lease::{OnLost, Terms};
use crate::report::{self, Reporter};
use crate::session::HeldLock;
use crate::signals::{Caught, Signals};

/// How often to look whether a command that is being stopped has gone: not everything of it is our child, whose
/// end would wake us.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// How the command's time under the lock ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// The command ended by itself; the lock is still held.
    Ended(CommandEnd),
    /// The lock was lost first, for this cause; everything of the command is dead.
    Lost { cause: String },
    /// The lock was lost first; the command ended by itself, as [`OnLost::Warn`] has it.
    Outlived,
}

/// Watches until the command has ended, or until everything of it is dead because the lock was lost first.
pub async fn supervise(
    child: &mut Child,
    held: &mut HeldLock,
    signals: &mut Signals,
    terms: Terms,
    report: &Reporter,
) -> anyhow::Result<End> {
    let mut state = State::Running(terms.on_lost);
    let mut grace_ends = None;
    let mut lost = pin!(held.lost());
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
            cause = &mut lost, if state.is_held() => Event::Lost(cause),
            () = sleep(LOOK_AGAIN), if state.is_stopping() => Event::Reaped {
                command: None,
                family_left: child.has_family(),
            },
        };
        match state.on_event(event) {
            Action::Nothing => {}
            Action::Forward(caught) => {
                if child.forward(caught) {
                    report.detail(|| format!("passed {} on", caught.signal));
                }
            }
            Action::Warn(cause) => {
                report::line_unless_blocked(&format!(
                    "the lock was lost: {cause}; the command goes on without it"
                ));
            }
            Action::Terminate => {
                report.detail(|| "the lock was lost: stopping the command".to_owned());
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

/// Tells why the command cannot be stopped: it may run as another user.
fn complain(signalled: nix::Result<()>) {
    if let Err(error) = signalled {
        report::line_unless_blocked(&format!("cannot stop the command: {}", error.desc()));
    }
}

/// What can happen while a command runs.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Event {
    /// Children were reaped, perhaps the command, perhaps none; whether anything that belongs to the command
    /// is left is asked only when it is being stopped.
    Reaped {
        command: Option<CommandEnd>,
        family_left: bool,
    },
    Lost(String),
    Signal(Caught),
    GraceOver,
}

/// What to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Action {
    Nothing,
    Forward(Caught),
    /// Say that the command goes on without its lock.
    Warn(String),
    /// TERM to everything of the command; the grace begins.
    Terminate,
    /// KILL to everything of the command.
    Kill,
    Finish(End),
}

/// Where the supervision stands.
#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    /// Under the lock, and what to do when it is lost.
    Running(OnLost),
    /// Without the lock, until it ends by itself.
    Outliving,
    /// The lock was lost: TERM was sent and, once the grace is over, KILL.
    Stopping { cause: String, killing: bool },
}

impl State {
    fn is_held(&self) -> bool {
        matches!(self, Self::Running(_))
    }

    fn is_stopping(&self) -> bool {
        matches!(self, Self::Stopping { .. })
    }

    /// The whole of the decisions, without input or output.
    fn on_event(&mut self, event: Event) -> Action {
        match (&mut *self, event) {
            (_, Event::Signal(caught)) => Action::Forward(caught),
            (
                Self::Running(_),
                Event::Reaped {
                    command: Some(end), ..
                },
            ) => Action::Finish(End::Ended(end)),
            (
                Self::Outliving,
                Event::Reaped {
                    command: Some(_), ..
                },
            ) => Action::Finish(End::Outlived),
            (Self::Running(OnLost::Warn), Event::Lost(cause)) => {
                *self = Self::Outliving;
                Action::Warn(cause)
            }
            (Self::Running(OnLost::Stop), Event::Lost(cause)) => {
                *self = Self::Stopping {
                    cause,
                    killing: false,
                };
                Action::Terminate
            }
            (
                Self::Stopping { cause, .. },
                Event::Reaped {
                    family_left: false, ..
                },
            ) => Action::Finish(End::Lost {
                cause: cause.clone(),
            }),
            (Self::Stopping { killing, .. }, Event::GraceOver) => {
                *killing = true;
                Action::Kill
            }
            // Whoever was forked while the others were being killed comes to light when one of them dies.
            (Self::Stopping { killing: true, .. }, Event::Reaped { .. }) => Action::Kill,
            (
                Self::Running(_) | Self::Outliving,
                Event::Reaped { command: None, .. } | Event::GraceOver,
            )
            | (Self::Outliving | Self::Stopping { .. }, Event::Lost(_))
            | (Self::Stopping { killing: false, .. }, Event::Reaped { .. }) => Action::Nothing,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXITED: CommandEnd = CommandEnd::Exited(3);

    fn reaped(command: Option<CommandEnd>, family_left: bool) -> Event {
        Event::Reaped {
            command,
            family_left,
        }
    }

    fn lost() -> Event {
        Event::Lost("gone".to_owned())
    }

    /// The actions that a sequence of events leads to.
    fn actions(events: impl IntoIterator<Item = Event>) -> Vec<Action> {
        let mut state = State::Running(OnLost::Stop);
        events
            .into_iter()
            .map(|event| state.on_event(event))
            .collect()
    }

    #[test]
    fn a_command_that_ends_by_itself_finishes_the_supervision() {
        assert_eq!(
            actions([reaped(None, false), reaped(Some(EXITED), false)]),
            [Action::Nothing, Action::Finish(End::Ended(EXITED))]
        );
    }

    #[test]
    fn a_lost_session_stops_the_whole_family_before_it_finishes() {
        let end = Action::Finish(End::Lost {
            cause: "gone".to_owned(),
        });
        assert_eq!(
            actions([
                lost(),
                reaped(Some(EXITED), true),
                Event::GraceOver,
                reaped(None, true),
                reaped(None, false)
            ]),
            [
                Action::Terminate,
                Action::Nothing,
                Action::Kill,
                Action::Kill,
                end
            ]
        );
    }

    #[test]
    fn signals_are_forwarded_in_every_state() {
        let caught = Caught {
            signal: Signal::SIGUSR1,
            from_kernel: false,
        };
        assert_eq!(
            actions([Event::Signal(caught), lost(), Event::Signal(caught)]),
            [
                Action::Forward(caught),
                Action::Terminate,
                Action::Forward(caught)
            ]
        );
    }
}
