//! Whether everything that was seen is as it should be.

mod exits;
mod freeing;
mod overlaps;
mod server_log;
mod stopping;

use std::collections::BTreeMap;
use std::time::Duration;

use crate::campaign::Record;
use crate::fault::{Effect, Fault, Kind};
use crate::run::{Life, Run};
use crate::watch::Gap;

/// What pglock was told: see its src/lease.rs.
const LEASE: Duration = Duration::from_secs(3);
const GRACE: Duration = Duration::from_millis(500);
const HEARTBEAT_INTERVAL: Duration = Duration::from_millis(500);
const HEARTBEAT_DEADLINE: Duration = Duration::from_millis(500);

/// What two cores with other work may add to any length of time.
const MARGIN: Duration = Duration::from_secs(1);

/// What was wrong, and what was not though it looks so.
#[derive(Default)]
pub struct Verdict {
    pub overlaps: Vec<String>,
    /// Jobs that met while the elder was being stopped after its session had ended, as the README says.
    pub overlaps_while_stopping: usize,
    /// Jobs that met because of a documented fault.
    pub documented: BTreeMap<Kind, usize>,
    /// Locks that were freed too late.
    pub late: Vec<String>,
    /// Commands that were stopped too late, or not before their pglock ended.
    pub unstopped: Vec<String>,
    pub wrong_exits: Vec<String>,
    pub server_log: Vec<String>,
    /// The longest time from a job's end to its free lock, by the faults that met it.
    pub longest_to_free: BTreeMap<Option<Kind>, Duration>,
}

/// The record, and what all judges ask of it.
struct Case<'a> {
    record: &'a Record,
}

/// Judges a whole campaign.
pub fn judge(record: &Record) -> Verdict {
    let case = Case { record };
    let mut verdict = Verdict::default();
    overlaps::judge(&case, &mut verdict);
    freeing::judge(&case, &mut verdict);
    stopping::judge(&case, &mut verdict);
    exits::judge(&case, &mut verdict);
    verdict.server_log = server_log::unexpected(&record.server_log);
    verdict
}

impl<'a> Case<'a> {
    /// The runs that had a job.
    fn lives(&self) -> impl Iterator<Item = (&'a Run, &'a Life)> {
        let runs = self.record.runs.iter();
        runs.filter_map(|run| Some((run, run.life.as_ref()?)))
    }

    /// The server's number for one of the keys.
    fn key(&self, key: usize) -> Option<i64> {
        let mut lives = self.lives();
        lives.find_map(|(run, life)| (run.plan.key == key).then_some(life.key))
    }

    /// The faults that can have met the run.
    fn faults(&self, run: &'a Run) -> impl Iterator<Item = &'a Fault> {
        self.record.faults.iter().filter(|fault| fault.meets(run))
    }

    /// The faults that met the job while it ran.
    fn faults_of_job(&self, run: &'a Run) -> impl Iterator<Item = &'a Fault> {
        let faults = self.record.faults.iter();
        faults.filter(|fault| fault.meets_job(run))
    }

    /// The documented fault for which nothing is promised to this run.
    fn exception(&self, run: &'a Run) -> Option<Kind> {
        let faults: Vec<&Fault> = self.faults_of_job(run).collect();
        let documented = faults
            .iter()
            .find(|fault| fault.kind.traits().documented.is_some());
        let has = |effect| faults.iter().any(|fault| fault.kind.has(effect));
        match documented {
            Some(fault) => Some(fault.kind),
            // One after the other is as both at once.
            None if has(Effect::Kills) && has(Effect::Unguards) => Some(Kind::KillBoth),
            // Nobody sends heartbeats: only the end of the connection can be noticed, and a relay that is silent keeps that back.
            None if has(Effect::Kills)
                && has(Effect::Silences)
                && run.way != crate::way::Way::Link =>
            {
                Some(Kind::StopAndFreeze)
            }
            None => None,
        }
    }

    /// For how long the machine held the campaign up between these.
    fn held_up(&self, from: Duration, until: Duration) -> Duration {
        let overlap = |gap: &Gap| gap.until.min(until).saturating_sub(gap.from.max(from));
        self.record.gaps.iter().map(overlap).sum()
    }

    /// Everything that is known of a run, for those who look into it.
    fn describe(&self, run: &'a Run) -> String {
        use std::fmt::Write as _;
        let mut text = format!(
            "    run {} by {:?}, {:?}, pid {}, spawned {:.3}\n",
            run.id,
            run.way,
            run.plan,
            run.pid,
            run.spawned.as_secs_f64()
        );
        let mut line = |fact: String| writeln!(text, "      {fact}").expect("a string takes it");
        if let Some(life) = &run.life {
            line(format!("{life:.3?}"));
        }
        if let Some(end) = &run.end {
            line(format!(
                "{:.3?} {}: {}",
                end.at,
                end.status,
                end.stderr.trim_end()
            ));
        }
        for fault in self.faults(run) {
            line(format!("{fault:.3?}"));
        }
        let lock = run.life.as_ref().map(|life| (life.backend, life.key));
        for seen in &self.record.sightings {
            if lock == Some((seen.backend, seen.key)) {
                line(format!("{seen:.3?}"));
            }
        }
        text
    }
}
