//! What the guardian does, decided by a pure function of the events.

use crate::lease::OnLost;

/// What can happen while a command is guarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// pglock has ended, or was killed.
    WrapperGone,
    /// The command's own process has ended.
    CommandEnded,
    SessionLost,
    GraceOver,
    /// A look at the processes: whether pglock is stopped or hangs, and whether anything of the command is left.
    Look {
        wrapper_helpless: bool,
        family_left: bool,
    },
}

/// What to do about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    Nothing,
    /// TERM to everything of the command; the grace begins.
    Terminate,
    /// KILL to everything of the command.
    Kill,
    /// Close the socket, which frees the lock.
    Leave,
}

/// Where the guarding stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct State {
    on_lost: OnLost,
    wrapper_gone: bool,
    command_ended: bool,
    session_lost: bool,
    stopping: Stopping,
}

/// How far the guardian has got with stopping the command itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Stopping {
    No,
    Terminated,
    Killed,
}

impl State {
    pub fn new(on_lost: OnLost) -> Self {
        Self {
            on_lost,
            wrapper_gone: false,
            command_ended: false,
            session_lost: false,
            stopping: Stopping::No,
        }
    }

    /// Whether to look at the processes now and then.
    pub fn looks(self) -> bool {
        self.session_lost && self.on_lost == OnLost::Stop
    }

    /// The whole of the decisions, without input or output.
    pub fn on_event(&mut self, event: Event) -> Action {
        match event {
            Event::WrapperGone => self.wrapper_gone = true,
            Event::CommandEnded => self.command_ended = true,
            Event::SessionLost => self.session_lost = true,
            Event::GraceOver if self.stopping == Stopping::Terminated => {
                self.stopping = Stopping::Killed;
                return Action::Kill;
            }
            Event::GraceOver => return Action::Nothing,
            Event::Look {
                wrapper_helpless,
                family_left,
            } => return self.on_look(wrapper_helpless, family_left),
        }
        self.next()
    }

    fn next(&mut self) -> Action {
        match self.stopping {
            Stopping::No if self.wrapper_gone && self.command_ended => Action::Leave,
            Stopping::No if self.wrapper_gone => self.stop_if_lost(),
            // What is left of the command is asked for by the next look.
            Stopping::No | Stopping::Terminated | Stopping::Killed => Action::Nothing,
        }
    }

    /// A pglock that is stopped, or hangs, cannot stop the command; when it goes on it finds it dead.
    fn on_look(&mut self, wrapper_helpless: bool, family_left: bool) -> Action {
        match self.stopping {
            Stopping::No if wrapper_helpless && !self.command_ended => self.stop_if_lost(),
            Stopping::Killed if family_left => Action::Kill,
            Stopping::Terminated | Stopping::Killed if !family_left && self.wrapper_gone => {
                Action::Leave
            }
            Stopping::No | Stopping::Terminated | Stopping::Killed => Action::Nothing,
        }
    }

    fn stop_if_lost(&mut self) -> Action {
        if !self.session_lost {
            return Action::Nothing;
        }
        match self.on_lost {
            OnLost::Stop => {
                self.stopping = Stopping::Terminated;
                Action::Terminate
            }
            OnLost::Warn => Action::Nothing,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{HashSet, VecDeque};

    use super::*;

    /// A state, and all that it must answer for.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    #[expect(
        clippy::struct_excessive_bools,
        reason = "facts of a scene, each by itself"
    )]
    struct Scene {
        state: State,
        wrapper: Wrapper,
        command_runs: bool,
        family_left: bool,
        session_lost: bool,
        grace_runs: bool,
        terminated: bool,
    }

    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    enum Wrapper {
        Runs,
        IsStopped,
        IsGone,
    }

    impl Scene {
        fn begin(on_lost: OnLost) -> Self {
            Self {
                state: State::new(on_lost),
                wrapper: Wrapper::Runs,
                command_runs: true,
                family_left: true,
                session_lost: false,
                grace_runs: false,
                terminated: false,
            }
        }

        /// Everything that can happen next; some of it the guardian is not told.
        fn events(self) -> Vec<(Self, Option<Event>)> {
            let mut events = Vec::new();
            if self.wrapper != Wrapper::IsGone {
                for wrapper in [Wrapper::Runs, Wrapper::IsStopped] {
                    events.push((Self { wrapper, ..self }, None));
                }
                let wrapper = Wrapper::IsGone;
                events.push((Self { wrapper, ..self }, Some(Event::WrapperGone)));
            }
            if self.command_runs {
                for family_left in [true, false] {
                    let ended = Self {
                        command_runs: false,
                        family_left,
                        ..self
                    };
                    events.push((ended, Some(Event::CommandEnded)));
                }
            } else {
                let family_left = false;
                events.push((
                    Self {
                        family_left,
                        ..self
                    },
                    None,
                ));
            }
            if !self.session_lost {
                let session_lost = true;
                events.push((
                    Self {
                        session_lost,
                        ..self
                    },
                    Some(Event::SessionLost),
                ));
            }
            if self.grace_runs {
                let grace_runs = false;
                events.push((Self { grace_runs, ..self }, Some(Event::GraceOver)));
            }
            if self.state.looks() {
                events.push((self, Some(self.look())));
            }
            events
        }

        fn look(self) -> Event {
            Event::Look {
                wrapper_helpless: self.wrapper == Wrapper::IsStopped,
                family_left: self.family_left,
            }
        }

        /// The scene after an event, unless that was the end; panics where a promise is broken.
        fn after(mut self, on_lost: OnLost, event: Event) -> Option<Self> {
            match self.state.on_event(event) {
                Action::Nothing => {}
                Action::Terminate => {
                    assert!(self.session_lost && on_lost == OnLost::Stop, "for a reason");
                    assert!(self.wrapper != Wrapper::Runs, "pglock's own business");
                    assert!(!self.terminated, "stopped once");
                    (self.terminated, self.grace_runs) = (true, true);
                }
                Action::Kill => assert!(self.terminated && !self.grace_runs, "after the grace"),
                Action::Leave => {
                    assert!(
                        self.wrapper == Wrapper::IsGone,
                        "nobody else holds the socket"
                    );
                    assert!(!self.command_runs, "freed before the command has ended");
                    assert!(!self.terminated || !self.family_left, "all of it is dead");
                    return None;
                }
            }
            let alone = self.wrapper == Wrapper::IsGone && self.command_runs;
            let unheld = alone && self.session_lost && on_lost == OnLost::Stop;
            assert!(
                !unheld || self.terminated,
                "runs without its lock, and is not being stopped"
            );
            Some(self)
        }

        /// Whether the death of everything ends the guarding.
        fn ends(self, on_lost: OnLost) -> bool {
            let mut events = Vec::new();
            if self.command_runs {
                events.push(Event::CommandEnded);
            }
            if self.wrapper != Wrapper::IsGone {
                events.push(Event::WrapperGone);
            }
            let mut scene = Self {
                wrapper: Wrapper::IsGone,
                command_runs: false,
                family_left: false,
                ..self
            };
            for event in events {
                match scene.after(on_lost, event) {
                    Some(going_on) => scene = going_on,
                    None => return true,
                }
            }
            scene.state.looks() && scene.after(on_lost, scene.look()).is_none()
        }
    }

    #[test]
    fn every_order_of_events_keeps_the_promises() {
        let mut scenes = 0;
        for on_lost in [OnLost::Stop, OnLost::Warn] {
            let mut seen = HashSet::from([Scene::begin(on_lost)]);
            let mut ahead = VecDeque::from([Scene::begin(on_lost)]);
            while let Some(scene) = ahead.pop_front() {
                assert!(scene.ends(on_lost), "no end: {scene:?}");
                for (next, event) in scene.events() {
                    let after = match event {
                        Some(event) => next.after(on_lost, event),
                        None => Some(next),
                    };
                    ahead.extend(after.filter(|after| seen.insert(*after)));
                }
            }
            scenes += seen.len();
        }
        assert!(scenes > 40, "only {scenes} were found");
    }

    #[test]
    fn a_stopped_pglock_is_stood_in_for() {
        let mut state = State::new(OnLost::Stop);
        let look = |wrapper_helpless| Event::Look {
            wrapper_helpless,
            family_left: true,
        };
        assert_eq!(state.on_event(Event::SessionLost), Action::Nothing);
        assert_eq!(state.on_event(look(false)), Action::Nothing);
        assert_eq!(state.on_event(look(true)), Action::Terminate);
        assert_eq!(state.on_event(Event::GraceOver), Action::Kill);
        assert_eq!(state.on_event(look(false)), Action::Kill);
    }
}
