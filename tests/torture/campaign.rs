//! A campaign from its start to the end of its last process: workers, drivers and those who look on.

use std::error::Error;
use std::io;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, ScopedJoinHandle, sleep};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};

use crate::clock;
use crate::driver::Driver;
use crate::failover::{self, Failover};
use crate::fault::{Fault, Kind};
use crate::options::Options;
use crate::plan;
use crate::processes;
use crate::run::{Run, Runs};
use crate::sightings::{self, Sighting};
use crate::testbed::Testbed;
use crate::watch::{self, Gap};
use crate::way::POSTS;
use crate::worker;

/// How long what was let go may take to end: a lock whose server cannot know, and a margin.
const AFTERMATH: Duration = Duration::from_secs(12);

/// Between two faults of the main driver, in milliseconds.
pub const PAUSES: (u64, u64) = (50, 700);
/// The same for the link, which needs time to show that everything works again.
const LINK_PAUSES: (u64, u64) = (1500, 5000);

/// All that was seen.
pub struct Record {
    pub runs: Vec<Run>,
    pub faults: Vec<Fault>,
    pub sightings: Vec<Sighting>,
    pub gaps: Vec<Gap>,
    /// What still ran when nothing should have.
    pub orphans: Vec<String>,
    /// Locks that were still held then.
    pub leaks: Vec<String>,
    pub server_log: String,
    pub failover: Failover,
    /// What kept the campaign itself from its work.
    pub mishaps: Vec<String>,
}

/// Runs a campaign.
pub fn run(testbed: &Testbed, options: &Options) -> Result<Record, Box<dyn Error>> {
    let (runs, faults) = (Runs::default(), Mutex::new(Vec::new()));
    let done = AtomicBool::new(false);
    let is_done = || done.load(Ordering::SeqCst);
    let driver = Driver {
        testbed,
        runs: &runs,
        faults: &faults,
    };
    let (gaps, sightings, ended) = thread::scope(|scope| {
        let watcher = scope.spawn(|| watch::watch(testbed, &runs, is_done));
        let seer = scope.spawn(|| sightings::collect(testbed, is_done));
        let mut parts: Vec<ScopedJoinHandle<'_, io::Result<()>>> = Vec::new();
        for (worker, post) in (0..).zip(POSTS) {
            let (runs, plans) = (&runs, plan::jobs(options.seed, worker));
            parts.push(scope.spawn(move || worker::work(testbed, runs, post, plans)));
        }
        for (kinds, pauses) in [(Kind::DRAWN, PAUSES), (Kind::OF_LINK, LINK_PAUSES)] {
            let (driver, steps) = (&driver, plan::faults(options.seed, kinds, pauses));
            parts.push(scope.spawn(move || driver.drive(steps)));
        }
        let start = clock::now();
        while clock::since(start) < options.length
            && !testbed.is_over()
            && !parts.iter().any(ScopedJoinHandle::is_finished)
        {
            sleep(Duration::from_millis(50));
        }
        testbed.finish();
        let ended: Vec<_> = parts.into_iter().map(outcome).collect();
        await_aftermath(testbed);
        done.store(true, Ordering::SeqCst);
        let gaps = watcher.join().expect("the watcher does not panic");
        let sightings = seer.join().expect("the seer does not panic");
        (gaps, sightings, ended)
    });
    let mut mishaps: Vec<String> = ended.into_iter().filter_map(Result::err).collect();
    let (orphans, leaks) = leftovers(testbed).unwrap_or_else(|error| {
        mishaps.push(error.to_string());
        Default::default()
    });
    let failover = thread::scope(|scope| outcome(scope.spawn(|| failover::carry_out(testbed))));
    let failover = failover.unwrap_or_else(Failover::failed);
    Ok(Record {
        runs: std::mem::take(&mut *runs.lock()),
        faults: faults.into_inner()?,
        sightings,
        gaps: gaps?,
        orphans,
        leaks,
        server_log: testbed.server.log(),
        failover,
        mishaps,
    })
}

/// What a thread came to, or why it came to nothing.
fn outcome<T>(part: ScopedJoinHandle<'_, io::Result<T>>) -> Result<T, String> {
    match part.join() {
        Ok(Ok(result)) => Ok(result),
        Ok(Err(error)) => Err(error.to_string()),
        Err(panic) => Err(match panic.downcast::<String>() {
            Ok(message) => *message,
            Err(_) => "a thread of the campaign panicked".to_owned(),
        }),
    }
}

/// Waits until nothing of the campaign runs and no lock is held, but not for ever.
fn await_aftermath(testbed: &Testbed) {
    let start = clock::now();
    while clock::since(start) < AFTERMATH {
        if leftovers(testbed).is_ok_and(|(orphans, leaks)| orphans.is_empty() && leaks.is_empty()) {
            return;
        }
        sleep(Duration::from_millis(100));
    }
}

/// The processes that are left, and the locks; the processes are then killed.
fn leftovers(testbed: &Testbed) -> Result<(Vec<String>, Vec<String>), postgres::Error> {
    let orphans = processes::marked(testbed.mark());
    let locks = sightings::look(&testbed.server, &mut None)?;
    let leaks = locks
        .iter()
        .map(|(backend, key)| format!("backend {backend} still holds {key}"));
    Ok((orphans.into_values().collect(), leaks.collect()))
}

/// Kills whatever is left of the campaign.
pub fn sweep(testbed: &Testbed) {
    for pid in processes::marked(testbed.mark()).into_keys() {
        let _ = kill(pid, Signal::SIGKILL);
    }
}
