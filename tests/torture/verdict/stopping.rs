//! A job whose session has ended or fallen silent is dead soon after, and none outlives its pglock unless that was killed.

use std::os::unix::process::ExitStatusExt as _;
use std::time::Duration;

use super::overlaps::to_stop;
use super::{Case, GRACE, HEARTBEAT_DEADLINE, HEARTBEAT_INTERVAL, LEASE, MARGIN, Verdict};
use crate::fault::Effect;
use crate::run::{Life, Run};

/// What the campaign needs to see that a process is dead.
const TO_SEE: Duration = Duration::from_millis(200);

pub fn judge(case: &Case<'_>, verdict: &mut Verdict) {
    for (run, life) in case.lives() {
        let Some(dead) = life.dead else {
            verdict
                .unstopped
                .push(format!("never ended:\n{}", case.describe(run)));
            continue;
        };
        let Some((what, limit)) = limits(case, run, life)
            .into_iter()
            .min_by_key(|(_, limit)| *limit)
        else {
            continue;
        };
        if dead > limit + case.held_up(life.started, dead) {
            let text = format!("{what} by {limit:.3?}:\n{}", case.describe(run));
            verdict.unstopped.push(text);
        }
    }
}

/// By when the job has to be dead, and because of what.
fn limits<'a>(case: &Case<'a>, run: &'a Run, life: &Life) -> Vec<(&'static str, Duration)> {
    let mut limits = Vec::new();
    if let Some(end) = &run.end
        && end.status.signal().is_none()
    {
        limits.push(("outlived its pglock, which ended", end.at + TO_SEE));
    }
    if case.exception(run).is_some() {
        return limits;
    }
    for fault in case.faults_of_job(run) {
        // What was over before the job began has not met it.
        if fault.struck < life.started {
            continue;
        }
        if fault.kind.has(Effect::EndsSession) {
            limits.push((
                "not stopped after the session's end,",
                fault.struck + to_stop(case, run),
            ));
        }
        let noticed = fault.from + HEARTBEAT_INTERVAL + HEARTBEAT_DEADLINE + GRACE + MARGIN;
        if fault.kind.has(Effect::Silences) && fault.until > noticed {
            limits.push((
                "not stopped within the lease,",
                fault.from.max(life.started) + LEASE,
            ));
        }
    }
    limits
}
