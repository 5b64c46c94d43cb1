//! Everything that belongs to a command, and how it is signalled.

mod tree;

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use self::tree::{Member, Origin};
pub use self::tree::{children_of_this_process, is_stopped};

/// A command's process group, if it leads one, and all descendants.
#[derive(Debug)]
pub struct Family {
    origin: Origin,
    own_group: Option<Pid>,
}

impl Family {
    /// All children of this process but those, and their descendants.
    pub fn of_children_but(others: Vec<Pid>, own_group: Option<Pid>) -> Self {
        Self {
            origin: Origin::ChildrenBut(others),
            own_group,
        }
    }

    /// That process and its descendants; it may be somebody else's child.
    pub fn of_process(pid: Pid, leads_group: bool) -> Self {
        Self {
            origin: Origin::Process(pid),
            own_group: leads_group.then_some(pid),
        }
    }

    /// Whether nothing of it is there any more; a child of this process is until it is reaped.
    pub fn is_gone(&self) -> bool {
        self.members().is_empty()
    }

    /// Sends `signal` once to each, and wakes who is stopped.
    ///
    /// The error is why somebody could not be signalled; the others were.
    pub fn signal(&self, signal: Signal) -> nix::Result<()> {
        let members = self.members();
        let outside = members
            .iter()
            .filter(|member| Some(member.group) != self.own_group);
        // Nobody is seen where /proc cannot be read; else a group without a member may be another's by now.
        let is_inside = |member: &Member| Some(member.group) == self.own_group;
        let group = self
            .own_group
            .filter(|_| members.is_empty() || members.iter().any(is_inside));
        let addressees: Vec<Pid> = group
            .map(as_group)
            .into_iter()
            .chain(outside.map(|member| member.pid))
            .collect();
        let sent = send(addressees.iter().copied(), signal);
        let _ = send(addressees, Signal::SIGCONT);
        sent
    }

    fn members(&self) -> Vec<Member> {
        tree::family(&self.origin, self.own_group)
    }
}

/// A process group, as kill(2) is told of it.
pub fn as_group(leader: Pid) -> Pid {
    Pid::from_raw(-leader.as_raw())
}

/// Signals each of these; one that has gone meanwhile needs no signal. The first error, once all were tried.
pub fn send(addressees: impl IntoIterator<Item = Pid>, signal: Signal) -> nix::Result<()> {
    let mut sent = Ok(());
    for addressee in addressees {
        match kill(addressee, signal) {
            Ok(()) | Err(Errno::ESRCH) => {}
            Err(error) => sent = sent.and(Err(error)),
        }
    }
    sent
}
