//! A process that is watched in a soak, and what it had at the beginning and at the end.

use nix::unistd::Pid;

use super::reading::{Measure, Reading};
use crate::processes::{self, Identity};

/// How many samples make a level, which is their median: in the middle of a heartbeat a process has a descriptor more or less, such as
/// its clock.
pub const WINDOW: usize = 5;

/// What an allocator and a stack may still need for something that happens seldom, in KiB. What leaks takes the room that the start has
/// left free first, some 70 KiB; then a quarter of a KiB with each heartbeat is more than this in ten minutes.
const MEMORY_LIMIT: u64 = 64;

/// The same for a backend, whose caches fill by and by.
const BACKEND_MEMORY_LIMIT: u64 = 512;

/// What a process is here for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    Holders,
    Waiters,
    Guardians,
    Backends,
}

/// One process, and what was seen of it.
pub struct Subject {
    pub group: Group,
    pub what: String,
    pid: Pid,
    /// `None` if it had ended before it could be looked at.
    identity: Option<Identity>,
    readings: Vec<Reading>,
}

/// What a subject had, in the first samples and in the last.
#[derive(Clone, Copy, Debug)]
pub struct Change {
    pub base: u64,
    pub end: u64,
}

impl Group {
    pub const ALL: [Self; 4] = [
        Self::Holders,
        Self::Waiters,
        Self::Guardians,
        Self::Backends,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::Holders => "holders",
            Self::Waiters => "waiters",
            Self::Guardians => "guardians",
            Self::Backends => "backends",
        }
    }

    /// How much more than at the beginning is no growth; `None` for what is none of pglock's business.
    pub fn limit(self, measure: Measure) -> Option<u64> {
        match (self, measure) {
            (Self::Backends, Measure::Memory) => Some(BACKEND_MEMORY_LIMIT),
            (Self::Backends, Measure::Descriptors | Measure::Threads) => None,
            (_, Measure::Memory) => Some(MEMORY_LIMIT),
            (_, Measure::Descriptors | Measure::Threads) => Some(0),
        }
    }
}

impl Subject {
    pub fn new(group: Group, pid: Pid) -> Self {
        Self {
            group,
            what: processes::description(pid),
            pid,
            identity: Identity::of(pid),
            readings: Vec::new(),
        }
    }

    /// Looks once more; what it was if it has ended.
    pub fn sample(&mut self) -> Option<String> {
        let lives = self.identity.is_some_and(|identity| !identity.is_dead());
        let reading = Reading::of(self.pid).filter(|_| lives);
        match reading {
            Some(reading) => {
                self.readings.push(reading);
                None
            }
            None => Some(self.what.clone()),
        }
    }

    pub fn samples(&self) -> usize {
        self.readings.len()
    }

    /// `None` before there are samples.
    pub fn change(&self, measure: Measure) -> Option<Change> {
        let values = || self.readings.iter().map(|reading| reading.value(measure));
        Some(Change {
            base: median(values().take(WINDOW))?,
            end: median(values().rev().take(WINDOW))?,
        })
    }
}

impl Change {
    pub fn growth(self) -> i64 {
        self.end.cast_signed() - self.base.cast_signed()
    }
}

/// The middle one of an odd number of values, as most of them are at rest.
fn median(values: impl Iterator<Item = u64>) -> Option<u64> {
    let mut values: Vec<u64> = values.collect();
    values.sort_unstable();
    values.get(values.len() / 2).copied()
}
