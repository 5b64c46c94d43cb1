//! The kinds of faults: how often they are drawn, how long they last, and what may come of them.

use std::time::Duration;

use nix::unistd::Pid;

use crate::run::Run;
use crate::way::Way;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    KillPglock,
    TerminatePglock,
    StopPglock,
    StopCommand,
    StopGuardian,
    KillGuardian,
    StopBackend,
    StopPostmaster,
    TerminateBackend,
    KillThenTerminate,
    StopAndTerminate,
    FastRestart,
    ImmediateRestart,
    KillPostmaster,
    KillBackend,
    Cut,
    Reset,
    Delay,
    Freeze,
    LinkDown,
    RestartPooler,
    KillBoth,
    StopAndFreeze,
    Promotion,
}

/// What may come of a fault for the runs that it reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Nothing: everything goes on as if it had not been.
    None,
    /// The command gets TERM, or the wait ends.
    Terms,
    /// pglock is dead and its guardian holds the lock.
    Kills,
    /// The guardian is dead, which nobody notices as long as pglock lives.
    Unguards,
    /// The server and pglock learn at once that the session is over.
    EndsSession,
    /// Neither hears of the other for as long as it lasts.
    Silences,
}

/// Everything else that there is to say of a kind.
#[derive(Clone, Copy, Debug)]
pub struct Traits {
    pub name: &'static str,
    /// In proportion to the others of its driver.
    pub weight: u32,
    /// The shortest and the longest time until it is undone, in milliseconds.
    pub hold: (u64, u64),
    pub effects: &'static [Effect],
    /// Why jobs of one key may meet without it being a fault of pglock's.
    pub documented: Option<&'static str>,
}

/// Whom a fault meets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    Run(usize),
    /// The session of this backend, which goes this way.
    Backend(Pid, Way),
    Way(Way),
    All,
}

/// A fault that has been.
#[derive(Clone, Copy, Debug)]
pub struct Fault {
    pub kind: Kind,
    pub reach: Reach,
    /// When it began.
    pub from: Duration,
    /// When it had done all that it does.
    pub struck: Duration,
    /// When it was undone.
    pub until: Duration,
}

/// How long a pooler may take to notice that its server was away.
const POOLER_RECOVERS: Duration = Duration::from_secs(3);

impl Kind {
    /// What the main driver draws from: one fault at a time.
    pub const DRAWN: &[Self] = &[
        Self::KillPglock,
        Self::TerminatePglock,
        Self::StopPglock,
        Self::StopCommand,
        Self::StopGuardian,
        Self::KillGuardian,
        Self::StopBackend,
        Self::StopPostmaster,
        Self::TerminateBackend,
        Self::KillThenTerminate,
        Self::StopAndTerminate,
        Self::FastRestart,
        Self::ImmediateRestart,
        Self::KillPostmaster,
        Self::KillBackend,
        Self::Cut,
        Self::Reset,
        Self::Delay,
        Self::Freeze,
        Self::RestartPooler,
        Self::KillBoth,
        Self::StopAndFreeze,
    ];

    /// What the driver of the link draws from, beside all others.
    pub const OF_LINK: &[Self] = &[Self::LinkDown];

    pub fn traits(self) -> Traits {
        use Effect::{EndsSession, Kills, Silences, Terms, Unguards};
        let (name, weight, hold, effects): (_, _, _, &'static [Effect]) = match self {
            Self::KillPglock => ("kill -9 of pglock", 12, (0, 0), &[Kills]),
            Self::TerminatePglock => ("TERM of pglock", 8, (0, 0), &[Terms]),
            Self::StopPglock => ("stopped pglock", 7, (100, 2500), &[Effect::None]),
            Self::StopCommand => ("stopped command", 5, (100, 1500), &[Effect::None]),
            Self::StopGuardian => ("stopped guardian", 4, (100, 1500), &[Effect::None]),
            Self::KillGuardian => ("kill -9 of the guardian", 4, (0, 0), &[Unguards]),
            Self::StopBackend => ("stopped backend", 6, (200, 4500), &[Silences]),
            Self::StopPostmaster => ("stopped postmaster", 3, (200, 2000), &[Effect::None]),
            Self::TerminateBackend => ("pg_terminate_backend", 8, (0, 0), &[EndsSession]),
            Self::KillThenTerminate => (
                "kill -9 of pglock, then pg_terminate_backend",
                6,
                (0, 300),
                &[Kills, EndsSession],
            ),
            Self::StopAndTerminate => (
                "stopped pglock, and pg_terminate_backend",
                4,
                (1200, 2000),
                &[EndsSession],
            ),
            Self::FastRestart => ("fast restart", 2, (0, 300), &[EndsSession]),
            Self::ImmediateRestart => ("immediate restart", 2, (0, 300), &[EndsSession]),
            Self::KillPostmaster => ("kill -9 of the postmaster", 2, (0, 300), &[EndsSession]),
            Self::KillBackend => ("kill -9 of a backend", 2, (0, 0), &[EndsSession]),
            Self::Cut => ("cut connections", 4, (0, 0), &[EndsSession]),
            Self::Reset => ("reset connections", 4, (0, 0), &[EndsSession]),
            Self::Delay => ("delayed connections", 4, (500, 2500), &[Effect::None]),
            Self::Freeze => ("frozen connections", 5, (200, 5000), &[Silences]),
            Self::LinkDown => ("link down", 1, (200, 10_000), &[Silences]),
            Self::RestartPooler => ("restart of PgBouncer", 3, (0, 300), &[EndsSession]),
            Self::KillBoth => (
                "kill -9 of pglock and its guardian",
                3,
                (0, 0),
                &[Kills, Unguards],
            ),
            Self::StopAndFreeze => (
                "stopped pglock, and frozen connections",
                2,
                (1500, 4000),
                &[Silences],
            ),
            Self::Promotion => ("promotion of a standby", 0, (0, 0), &[EndsSession]),
        };
        let documented = match self {
            Self::KillBoth => Some("nobody is left to hold the lock or to stop the command"),
            Self::StopAndFreeze => Some("a stopped pglock sends no heartbeat"),
            Self::Promotion => Some("the new primary knows no lock of the old one"),
            _ => None,
        };
        Traits {
            name,
            weight,
            hold,
            effects,
            documented,
        }
    }

    pub fn has(self, effect: Effect) -> bool {
        self.traits().effects.contains(&effect)
    }
}

impl Fault {
    /// Whether the fault can have met the run, or what was left of it after its pglock was killed.
    pub fn meets(&self, run: &Run) -> bool {
        let settled = match run.way {
            Way::SessionPool | Way::TransactionPool => self.until + POOLER_RECOVERS,
            Way::Socket | Way::Proxy | Way::Link => self.until,
        };
        let over = run.over().unwrap_or(Duration::MAX);
        self.reaches(run) && self.from <= over && run.spawned <= settled
    }

    /// Whether the fault met the job, when it was running.
    pub fn meets_job(&self, run: &Run) -> bool {
        let Some(life) = &run.life else {
            return false;
        };
        let is_its_backend = match self.reach {
            Reach::Backend(pid, _) => life.backend == pid.as_raw(),
            Reach::Run(_) | Reach::Way(_) | Reach::All => true,
        };
        let dead = life.dead.unwrap_or(Duration::MAX);
        is_its_backend && self.reaches(run) && life.started <= self.until && self.from <= dead
    }

    fn reaches(&self, run: &Run) -> bool {
        match self.reach {
            Reach::Run(id) => run.id == id,
            // A pooler hands backends from one to the next.
            Reach::Backend(_, way) if way.is_pooled() => run.way == way,
            Reach::Backend(pid, way) => {
                let backend = run.life.as_ref().map(|life| life.backend);
                run.way == way && backend == Some(pid.as_raw())
            }
            Reach::Way(way) => run.way == way,
            Reach::All => true,
        }
    }
}
