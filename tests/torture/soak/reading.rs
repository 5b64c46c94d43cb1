//! What a process has, as /proc says (proc(5)).

use std::fs;

use nix::unistd::Pid;

/// What is measured of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    Descriptors,
    /// Pages that belong to no file, such as the heap, in KiB.
    Memory,
    Threads,
}

/// One look at a process.
#[derive(Clone, Copy, Debug)]
pub struct Reading {
    descriptors: u64,
    memory: u64,
    threads: u64,
}

impl Measure {
    pub const ALL: [Self; 3] = [Self::Descriptors, Self::Memory, Self::Threads];

    pub fn name(self) -> &'static str {
        match self {
            Self::Descriptors => "descriptors",
            Self::Memory => "anonymous memory, KiB",
            Self::Threads => "threads",
        }
    }
}

impl Reading {
    /// `None` if there is no such process any more.
    pub fn of(pid: Pid) -> Option<Self> {
        let descriptors = fs::read_dir(format!("/proc/{pid}/fd")).ok()?.count();
        let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let number = |field: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(field))?;
            line.split_whitespace().next()?.parse().ok()
        };
        Some(Self {
            descriptors: u64::try_from(descriptors).ok()?,
            memory: number("RssAnon:")?,
            threads: number("Threads:")?,
        })
    }

    pub fn value(self, measure: Measure) -> u64 {
        match measure {
            Measure::Descriptors => self.descriptors,
            Measure::Memory => self.memory,
            Measure::Threads => self.threads,
        }
    }
}
