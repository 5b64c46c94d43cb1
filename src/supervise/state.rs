//! What is done about a command under its lock, decided by a pure function of the events.

use crate::exit::CommandEnd;
use crate::lease::OnLost;
use crate::requester::Requester;
use crate::signals::Caught;

/// How the command's time under the lock ended.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum End {
    /// The command ended by itself; the lock is still held.
    Ended(CommandEnd),
    /// The lock was lost first, for this cause; everything of the command is dead.
    Lost { cause: String },
    /// The lock was lost first; the command ended by itself or overran, as [`OnLost::Warn`] has it.
    Outlived,
    /// The command ran longer than it may, under the lock; everything of it is dead.
    Overran,
    /// Somebody asked for the lock, which is still held; everything of the command is dead.
    Asked { by: Requester, command: CommandEnd },
}

/// What can happen while a command runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Children were reaped, perhaps the command, perhaps none; whether anything that belongs to the command
    /// is left is asked only when it is being stopped.
    Reaped {
        command: Option<CommandEnd>,
        family_left: bool,
    },
    Lost(String),
    /// The command has run as long as it may.
    Overran,
    /// Somebody who may asks for the lock.
    Asked(Requester),
    Signal(Caught),
    GraceOver,
}

/// What to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
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
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// Under the lock, and what to do when it is lost.
    Running(OnLost),
    /// Without the lock, until it ends by itself.
    Outliving,
    /// TERM was sent and, once the grace is over, KILL; why, and how the command itself ended if that was seen.
    Stopping {
        reason: Reason,
        command: Option<CommandEnd>,
        killing: bool,
    },
}

/// Why a command is being stopped.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    Lost { cause: String },
    Outlived,
    Overran,
    Asked(Requester),
}

impl State {
    pub fn is_held(&self) -> bool {
        match self {
            Self::Running(_) => true,
            Self::Outliving => false,
            Self::Stopping { reason, .. } => match reason {
                Reason::Overran | Reason::Asked(_) => true,
                Reason::Lost { .. } | Reason::Outlived => false,
            },
        }
    }

    pub fn can_be_asked(&self) -> bool {
        matches!(self, Self::Running(_))
    }

    pub fn can_overrun(&self) -> bool {
        matches!(self, Self::Running(_) | Self::Outliving)
    }

    pub fn is_stopping(&self) -> bool {
        matches!(self, Self::Stopping { .. })
    }

    /// The whole of the decisions, without input or output.
    pub fn on_event(&mut self, event: Event) -> Action {
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
                *self = Self::stopping(Reason::Lost { cause });
                Action::Terminate
            }
            (Self::Running(_), Event::Overran) => {
                *self = Self::stopping(Reason::Overran);
                Action::Terminate
            }
            (Self::Running(_), Event::Asked(by)) => {
                *self = Self::stopping(Reason::Asked(by));
                Action::Terminate
            }
            (Self::Outliving, Event::Overran) => {
                *self = Self::stopping(Reason::Outlived);
                Action::Terminate
            }
            (
                Self::Stopping {
                    reason,
                    command,
                    killing,
                },
                Event::Reaped {
                    command: reaped,
                    family_left,
                },
            ) => {
                *command = command.or(reaped);
                match (family_left, reason.end(*command)) {
                    (false, Some(end)) => Action::Finish(end),
                    // Whoever was forked while the others were being killed comes to light when one of them dies.
                    (true, _) if *killing => Action::Kill,
                    (true, _) | (false, None) => Action::Nothing,
                }
            }
            (Self::Stopping { reason, .. }, Event::Lost(cause)) => {
                *reason = Reason::Lost { cause };
                Action::Nothing
            }
            (Self::Stopping { killing, .. }, Event::GraceOver) => {
                *killing = true;
                Action::Kill
            }
            (
                Self::Running(_) | Self::Outliving,
                Event::Reaped { command: None, .. } | Event::GraceOver,
            )
            | (Self::Outliving, Event::Lost(_) | Event::Asked(_))
            | (Self::Stopping { .. }, Event::Overran | Event::Asked(_)) => Action::Nothing,
        }
    }

    fn stopping(reason: Reason) -> Self {
        Self::Stopping {
            reason,
            command: None,
            killing: false,
        }
    }
}

impl Reason {
    /// What comes of it when all is dead; `None` as long as it is not known how the command ended.
    fn end(&self, command: Option<CommandEnd>) -> Option<End> {
        Some(match self {
            Self::Lost { cause } => End::Lost {
                cause: cause.clone(),
            },
            Self::Outlived => End::Outlived,
            Self::Overran => End::Overran,
            Self::Asked(by) => End::Asked {
                by: by.clone(),
                command: command?,
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{HashSet, VecDeque};

    use nix::sys::signal::Signal;

    use super::*;

    const EXITED: CommandEnd = CommandEnd::Exited(3);
    const CAUGHT: Caught = Caught {
        signal: Signal::SIGUSR1,
        from_kernel: false,
    };

    /// A state, and all that it must answer for.
    #[derive(Clone, Debug, PartialEq, Eq, Hash)]
    #[expect(
        clippy::struct_excessive_bools,
        reason = "facts of a scene, each by itself"
    )]
    struct Scene {
        state: State,
        command_runs: bool,
        family_left: bool,
        session_lost: bool,
        overran: bool,
        asked: bool,
        grace_runs: bool,
        terminated: bool,
    }

    impl Scene {
        fn begin(on_lost: OnLost) -> Self {
            Self {
                state: State::Running(on_lost),
                command_runs: true,
                family_left: true,
                session_lost: false,
                overran: false,
                asked: false,
                grace_runs: false,
                terminated: false,
            }
        }

        /// Everything that can happen next.
        fn events(&self) -> Vec<(Self, Event)> {
            let mut events = vec![(self.clone(), Event::Signal(CAUGHT))];
            // Of what is left, all or some may end; the command may end and leave the others.
            for family_left in [true, false] {
                let ended = Self {
                    command_runs: false,
                    family_left,
                    ..self.clone()
                };
                let reaped = |command| Event::Reaped {
                    command,
                    family_left,
                };
                if self.family_left && self.command_runs {
                    events.push((ended.clone(), reaped(Some(EXITED))));
                }
                if family_left == self.family_left || !self.command_runs && !family_left {
                    let looked = Self {
                        family_left,
                        ..self.clone()
                    };
                    events.push((looked, reaped(None)));
                }
            }
            if self.state.is_held() {
                let lost = Self {
                    session_lost: true,
                    ..self.clone()
                };
                events.push((lost, Event::Lost("gone".to_owned())));
            }
            if self.state.can_overrun() {
                let overran = Self {
                    overran: true,
                    ..self.clone()
                };
                events.push((overran, Event::Overran));
            }
            if self.state.can_be_asked() {
                let asked = Self {
                    asked: true,
                    ..self.clone()
                };
                events.push((asked, Event::Asked(requester())));
            }
            if self.grace_runs {
                let over = Self {
                    grace_runs: false,
                    ..self.clone()
                };
                events.push((over, Event::GraceOver));
            }
            events
        }

        /// The scene after an event, unless that was the end; panics where a promise is broken.
        fn after(mut self, on_lost: OnLost, event: &Event) -> Option<Self> {
            let action = self.state.on_event(event.clone());
            let stops = self.session_lost && on_lost == OnLost::Stop;
            match &action {
                Action::Terminate => {
                    let has_reason = stops || self.overran || self.asked;
                    assert!(
                        has_reason && !self.terminated,
                        "stopped once, and for a reason"
                    );
                    (self.terminated, self.grace_runs) = (true, true);
                }
                Action::Kill => {
                    assert!(
                        self.terminated && !self.grace_runs,
                        "killed after the grace"
                    );
                }
                Action::Finish(End::Ended(_)) => {
                    assert!(!self.command_runs, "released before the command was reaped");
                    assert!(!self.session_lost && !self.overran, "an end under the lock");
                    assert!(!self.asked, "an end by itself");
                }
                Action::Finish(End::Asked { command, .. }) => {
                    assert!(self.asked && self.terminated && !self.session_lost);
                    assert!(
                        !self.command_runs && !self.family_left,
                        "an end with all dead"
                    );
                    assert_eq!(*command, EXITED);
                }
                Action::Finish(End::Lost { .. }) => {
                    assert!(self.session_lost && self.terminated);
                    assert!(
                        !self.command_runs && !self.family_left,
                        "an end with all dead"
                    );
                }
                Action::Finish(End::Outlived) => {
                    assert!(self.session_lost && !stops && !self.command_runs);
                    assert!(!self.overran || !self.family_left, "an end with all dead");
                }
                Action::Finish(End::Overran) => {
                    assert!(self.overran && self.terminated && !self.session_lost);
                    assert!(
                        !self.command_runs && !self.family_left,
                        "an end with all dead"
                    );
                }
                Action::Warn(_) => assert!(self.session_lost && !stops),
                Action::Forward(_) => assert!(matches!(event, Event::Signal(_)), "told once"),
                Action::Nothing => {}
            }
            assert!(
                !(stops || self.overran || self.asked) || self.terminated,
                "runs without its lock, for too long or unwanted, and is not being stopped"
            );
            (!matches!(action, Action::Finish(_))).then_some(self)
        }

        /// Whether the death of everything ends the supervision.
        fn ends(self, on_lost: OnLost) -> bool {
            let command = self.command_runs.then_some(EXITED);
            let dead = Self {
                command_runs: false,
                family_left: false,
                ..self
            };
            let reaped = |command| Event::Reaped {
                command,
                family_left: false,
            };
            match dead.after(on_lost, &reaped(command)) {
                Some(going_on) => going_on.after(on_lost, &reaped(None)).is_none(),
                None => true,
            }
        }
    }

    #[test]
    fn every_order_of_events_keeps_the_promises() {
        let mut scenes = 0;
        for on_lost in [OnLost::Stop, OnLost::Warn] {
            let mut seen = HashSet::from([Scene::begin(on_lost)]);
            let mut ahead = VecDeque::from([Scene::begin(on_lost)]);
            while let Some(scene) = ahead.pop_front() {
                assert!(scene.clone().ends(on_lost), "no end: {scene:?}");
                for (next, event) in scene.events() {
                    let after = next.after(on_lost, &event);
                    ahead.extend(after.filter(|after| seen.insert(after.clone())));
                }
            }
            scenes += seen.len();
        }
        assert!(scenes > 6, "only {scenes} were found");
    }

    fn reaped(command: Option<CommandEnd>, family_left: bool) -> Event {
        Event::Reaped {
            command,
            family_left,
        }
    }

    fn requester() -> Requester {
        Requester {
            backend_pid: 7,
            user: "alice".to_owned(),
            application_name: String::new(),
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
    fn a_command_whose_lock_is_asked_for_finishes_with_its_own_status_once_all_is_dead() {
        let end = End::Asked {
            by: requester(),
            command: EXITED,
        };
        assert_eq!(
            actions([
                Event::Asked(requester()),
                Event::Asked(requester()),
                reaped(Some(EXITED), true),
                reaped(None, false)
            ]),
            [
                Action::Terminate,
                Action::Nothing,
                Action::Nothing,
                Action::Finish(end)
            ]
        );
    }

    #[test]
    fn signals_are_forwarded_in_every_state() {
        assert_eq!(
            actions([Event::Signal(CAUGHT), lost(), Event::Signal(CAUGHT)]),
            [
                Action::Forward(CAUGHT),
                Action::Terminate,
                Action::Forward(CAUGHT)
            ]
        );
    }
}
