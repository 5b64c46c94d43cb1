//! Reads what the jobs write, sees them die, and takes note of how long the machine itself was held up.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read as _};
use std::thread::sleep;
use std::time::Duration;

use crate::clock;
use crate::journal::{Event, Line};
use crate::processes::Identity;
use crate::run::Runs;
use crate::testbed::Testbed;

/// How often to look: bounds the error of [`crate::run::Life::dead`].
const PERIOD: Duration = Duration::from_millis(10);

/// A stretch of time in which this process could not look, though it wanted to.
#[derive(Clone, Copy, Debug)]
pub struct Gap {
    pub from: Duration,
    pub until: Duration,
}

/// Watches until `is_done`; gives the gaps that are worth mentioning.
pub fn watch(testbed: &Testbed, runs: &Runs, is_done: impl Fn() -> bool) -> io::Result<Vec<Gap>> {
    let mut journal = File::open(testbed.journal())?;
    let mut rest = String::new();
    let mut living: HashMap<usize, Option<Identity>> = HashMap::new();
    let mut gaps = Vec::new();
    let mut last = clock::now();
    while !is_done() {
        sleep(PERIOD);
        let now = clock::now();
        if now.saturating_sub(last) > PERIOD * 5 {
            gaps.push(Gap {
                from: last,
                until: now,
            });
        }
        last = now;
        journal.read_to_string(&mut rest)?;
        let complete = rest.rfind('\n').map_or(0, |end| end + 1);
        let mut known = runs.lock();
        for line in rest[..complete].lines().filter_map(Line::parse) {
            known[line.run].note(line);
            if let Event::Started { process, .. } = line.event {
                living.insert(line.run, Identity::of(process));
            }
        }
        rest.drain(..complete);
        living.retain(|run, identity| {
            let Some(life) = &mut known[*run].life else {
                return false;
            };
            let before = clock::now();
            let is_dead = identity.is_none_or(Identity::is_dead);
            if is_dead {
                life.dead = Some(clock::now());
            } else {
                life.alive = before;
            }
            !is_dead
        });
    }
    Ok(gaps)
}
