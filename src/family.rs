//! Everything that belongs to a command, and how it is signalled.

mod tree;

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use self::tree::{Member, Origin};
pub use self::tree::{children_of_this_process, is_stopped};

/// A command's process group, if it leads one, and all descendants, as long as they live: who was seen once stays a
/// member when its parents have ended.
#[derive(Debug)]
pub struct Family {
    command: Pid,
    origin: Origin,
    own_group: Option<Pid>,
    seen: Vec<Member>,
}

impl Family {
    /// The command, which is a child of this process, and all its children but those, and their descendants.
    pub fn of_children_but(others: Vec<Pid>, command: Pid, leads_group: bool) -> Self {
        Self::new(Origin::ChildrenBut(others), command, leads_group)
    }

    /// The command, which may be somebody else's child, and its descendants.
    pub fn of_process(command: Pid, leads_group: bool) -> Self {
        Self::new(Origin::Process(command), command, leads_group)
    }

    fn new(origin: Origin, command: Pid, leads_group: bool) -> Self {
        Self {
            command,
            origin,
            own_group: leads_group.then_some(command),
            seen: Vec::new(),
        }
    }

    /// Whether nothing of it is there any more; a child of this process is until it is reaped.
    pub fn is_gone(&mut self) -> bool {
        match self.members() {
            Some(members) => members.is_empty(),
            None => kill(self.command_or_group(), None).is_err(),
        }
    }

    /// Sends `signal` once to each, and wakes who is stopped.
    ///
    /// The error is why somebody could not be signalled; the others were.
    pub fn signal(&mut self, signal: Signal) -> nix::Result<()> {
        let own_group = self.own_group;
        let is_inside = |member: &&Member| Some(member.group) == own_group;
        let addressees: Vec<Pid> = match self.members() {
            Some(members) => {
                let outside = members.iter().filter(|member| !is_inside(member));
                // A group without a member may be another's by now.
                let group = own_group.filter(|_| members.iter().any(|member| is_inside(&member)));
                group
                    .map(as_group)
                    .into_iter()
                    .chain(outside.map(|member| member.pid))
                    .collect()
            }
            None => vec![self.command_or_group()],
        };
        let sent = send(addressees.iter().copied(), signal);
        let _ = send(addressees, Signal::SIGCONT);
        sent
    }

    /// Who is there now; `None` where that cannot be seen.
    fn members(&mut self) -> Option<&[Member]> {
        self.seen = tree::family(&self.origin, self.own_group, &self.seen)?;
        Some(&self.seen)
    }

    fn command_or_group(&self) -> Pid {
        self.own_group.map_or(self.command, as_group)
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
