//! What the jobs write: one log for all, to which each adds whole lines.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::path::Path;
use std::time::Duration;

use nix::unistd::Pid;

use crate::clock;

/// What happened to the job of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// It runs, and `alone` says whether it got the file of its key at once.
    Started {
        process: Pid,
        backend: i32,
        key: i64,
        alone: bool,
    },
    /// Whoever else had the file of the key has gone.
    Alone,
    /// It has run to its end.
    Ended { code: u8 },
}

/// An event, of which run it is, and when it was.
#[derive(Clone, Copy, Debug)]
pub struct Line {
    pub run: usize,
    pub at: Duration,
    pub event: Event,
}

/// The log, open for one more line at its end.
pub struct Journal {
    file: File,
    run: usize,
}

impl Journal {
    pub fn open(path: &Path, run: usize) -> io::Result<Self> {
        let file = OpenOptions::new().append(true).create(true).open(path)?;
        Ok(Self { file, run })
    }

    /// Adds a line by one write(2), which with `O_APPEND` mixes with nobody else's.
    pub fn write(&mut self, event: Event) -> io::Result<()> {
        let (run, at) = (self.run, clock::now().as_nanos());
        let line = match event {
            Event::Started {
                process,
                backend,
                key,
                alone,
            } => {
                format!("{run} {at} started {process} {backend} {key} {alone}\n")
            }
            Event::Alone => format!("{run} {at} alone\n"),
            Event::Ended { code } => format!("{run} {at} ended {code}\n"),
        };
        self.file.write_all(line.as_bytes())
    }
}

impl Line {
    /// Reads a line back; `None` if it is none of ours.
    pub fn parse(text: &str) -> Option<Self> {
        let words: Vec<&str> = text.split(' ').collect();
        let (run, at, event) = match words[..] {
            [run, at, "started", process, backend, key, alone] => {
                let event = Event::Started {
                    process: Pid::from_raw(process.parse().ok()?),
                    backend: backend.parse().ok()?,
                    key: key.parse().ok()?,
                    alone: alone.parse().ok()?,
                };
                (run, at, event)
            }
            [run, at, "alone"] => (run, at, Event::Alone),
            [run, at, "ended", code] => (
                run,
                at,
                Event::Ended {
                    code: code.parse().ok()?,
                },
            ),
            _ => return None,
        };
        Some(Self {
            run: run.parse().ok()?,
            at: Duration::from_nanos(at.parse().ok()?),
            event,
        })
    }
}
