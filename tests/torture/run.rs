//! The runs of pglock, and what is known of each.

use std::process::{Child, ExitStatus};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::clock;
use crate::journal::{Event, Line};
use crate::plan::JobPlan;
use crate::way::Way;

/// One run of pglock.
#[derive(Debug)]
pub struct Run {
    pub id: usize,
    pub way: Way,
    pub plan: JobPlan,
    pub pid: Pid,
    pub spawned: Duration,
    pub end: Option<End>,
    pub life: Option<Life>,
    child: Option<Child>,
}

/// How pglock ended.
#[derive(Clone, Debug)]
pub struct End {
    pub at: Duration,
    pub status: ExitStatus,
    pub stderr: String,
}

/// What the job did.
#[derive(Clone, Debug)]
pub struct Life {
    pub process: Pid,
    pub backend: i32,
    pub key: i64,
    pub started: Duration,
    /// Since when no other job of the key was there; not at once only if another was there when it started.
    pub alone: Option<Duration>,
    /// That it came to its end, and with which code.
    pub code: Option<u8>,
    /// When it was surely alive for the last time.
    pub alive: Duration,
    /// When its process was seen to be dead: a moment after it died.
    pub dead: Option<Duration>,
}

/// All runs of a campaign, by their numbers.
#[derive(Default)]
pub struct Runs {
    list: Mutex<Vec<Run>>,
}

impl Run {
    /// Whether pglock and its job live.
    pub fn is_running_job(&self) -> bool {
        let lives = |life: &Life| life.dead.is_none() && life.code.is_none();
        self.child.is_some() && self.life.as_ref().is_some_and(lives)
    }

    /// When pglock and its job had both ended.
    pub fn over(&self) -> Option<Duration> {
        let end = self.end.as_ref()?.at;
        match &self.life {
            Some(life) => Some(end.max(life.dead?)),
            None => Some(end),
        }
    }

    /// Takes note of what its job wrote.
    pub fn note(&mut self, line: Line) {
        match (line.event, &mut self.life) {
            (
                Event::Started {
                    process,
                    backend,
                    key,
                    alone,
                },
                first,
            ) => {
                *first = Some(Life {
                    process,
                    backend,
                    key,
                    started: line.at,
                    alone: alone.then_some(line.at),
                    code: None,
                    alive: line.at,
                    dead: None,
                });
            }
            (Event::Alone, Some(known)) => known.alone = Some(line.at),
            (Event::Ended { code }, Some(known)) => {
                known.code = Some(code);
                known.alive = known.alive.max(line.at);
            }
            (Event::Alone | Event::Ended { .. }, None) => {}
        }
    }
}

impl Runs {
    pub fn lock(&self) -> MutexGuard<'_, Vec<Run>> {
        self.list.lock().expect("nobody panics with the list")
    }

    /// Starts a run by a command that is told its number.
    pub fn start(
        &self,
        way: Way,
        plan: JobPlan,
        spawn: impl FnOnce(usize) -> std::io::Result<Child>,
    ) -> std::io::Result<usize> {
        let mut list = self.lock();
        let (id, spawned) = (list.len(), clock::now());
        let child = spawn(id)?;
        list.push(Run {
            id,
            way,
            plan,
            pid: Pid::from_raw(child.id().cast_signed()),
            spawned,
            end: None,
            life: None,
            child: Some(child),
        });
        Ok(id)
    }

    /// Reaps the run's pglock if it has ended.
    pub fn reap(&self, id: usize) -> std::io::Result<Option<ExitStatus>> {
        let mut list = self.lock();
        let run = &mut list[id];
        let Some(child) = &mut run.child else {
            return Ok(None);
        };
        let status = child.try_wait()?;
        if status.is_some() {
            run.child = None;
        }
        Ok(status)
    }

    pub fn conclude(&self, id: usize, end: End) {
        self.lock()[id].end = Some(end);
    }

    /// Signals the run's pglock, unless it was reaped.
    pub fn signal(&self, id: usize, signal: Signal) -> bool {
        let list = self.lock();
        list[id].child.is_some() && kill(list[id].pid, signal).is_ok()
    }
}
