//! What a campaign will do, drawn from its seed: the jobs of each worker and the faults of each driver.

use std::time::Duration;

use fastrand::Rng;

use crate::fault::Kind;

/// How many keys the jobs have among them: few enough to be in one another's way.
pub const KEYS: usize = 6;

/// One job and how pglock is to run it.
#[derive(Clone, Copy, Debug)]
pub struct JobPlan {
    pub key: usize,
    pub verb: Verb,
    pub sharing: Sharing,
    pub style: Style,
    pub length: Duration,
    pub code: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    Try,
    /// With this `--timeout`.
    Run(Duration),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    Exclusive,
    Shared,
}

/// What the command is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// The job itself.
    Plain,
    /// The job itself, which ignores TERM.
    Deaf,
    /// A shell that waits for the job.
    Shell,
    /// The same, both of which ignore TERM.
    DeafShell,
    /// A shell with the job and two more children, one of them in a session of its own.
    Family,
}

impl Style {
    /// Whether nothing of it dies of TERM.
    pub fn is_deaf(self) -> bool {
        match self {
            Self::Deaf | Self::DeafShell => true,
            Self::Plain | Self::Shell | Self::Family => false,
        }
    }
}

/// One fault to come.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    /// How long to leave everything in peace before it.
    pub pause: Duration,
    pub kind: Kind,
    /// How long what can be undone lasts.
    pub hold: Duration,
    /// Which of those who can be met is met: this, modulo their number.
    pub pick: usize,
}

/// An endless sequence of jobs, the same for the same seed and worker.
pub fn jobs(seed: u64, worker: u64) -> impl Iterator<Item = JobPlan> {
    let mut rng = Rng::with_seed(seed ^ (worker + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    std::iter::repeat_with(move || job(&mut rng))
}

/// An endless sequence of those faults, the same for the same seed.
pub fn faults(seed: u64, kinds: &'static [Kind], pauses: (u64, u64)) -> impl Iterator<Item = Step> {
    let mut rng = Rng::with_seed(seed);
    let total: u32 = kinds.iter().map(|kind| kind.traits().weight).sum();
    std::iter::repeat_with(move || {
        let mut left = rng.u32(..total);
        let drawn = kinds.iter().find(|kind| {
            let weight = kind.traits().weight;
            let found = left < weight;
            left = left.saturating_sub(weight);
            found
        });
        let kind = *drawn.expect("the weights add up to the total");
        let (shortest, longest) = kind.traits().hold;
        Step {
            pause: milliseconds(&mut rng, pauses),
            kind,
            hold: milliseconds(&mut rng, (shortest, longest)),
            pick: rng.usize(..),
        }
    })
}

fn job(rng: &mut Rng) -> JobPlan {
    let length = match rng.u32(..20) {
        0..10 => (0, 250),
        10..19 => (250, 2000),
        _ => (2000, 6000),
    };
    JobPlan {
        key: rng.usize(..KEYS),
        verb: if rng.u32(..5) < 2 {
            Verb::Try
        } else {
            Verb::Run(milliseconds(rng, (4000, 9000)))
        },
        sharing: if rng.u32(..6) == 0 {
            Sharing::Shared
        } else {
            Sharing::Exclusive
        },
        style: match rng.u32(..10) {
            0..4 => Style::Plain,
            4..6 => Style::Deaf,
            6 => Style::Shell,
            7 => Style::DeafShell,
            _ => Style::Family,
        },
        length: milliseconds(rng, length),
        code: rng.u8(0..5),
    }
}

fn milliseconds(rng: &mut Rng, (shortest, longest): (u64, u64)) -> Duration {
    Duration::from_millis(rng.u64(shortest..=longest))
}
