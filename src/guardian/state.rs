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
    /// A look at the processes: whether pglock is stopped, and whether anything of the command is left.
    Look {
        wrapper_stopped: bool,
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
                wrapper_stopped,
                family_left,
            } => return self.on_look(wrapper_stopped, family_left),
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

    /// A pglock that is stopped cannot stop the command; when it goes on it finds it dead.
    fn on_look(&mut self, wrapper_stopped: bool, family_left: bool) -> Action {
        match self.stopping {
            Stopping::No if wrapper_stopped && !self.command_ended => self.stop_if_lost(),
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
