//! Every exit status is one that the README gives, for what happened to the run and to its job.

use std::os::unix::process::ExitStatusExt as _;
use std::time::Duration;

use nix::sys::signal::Signal;

use super::{Case, Verdict};
use crate::fault::{Effect, Fault};
use crate::run::{End, Life, Run};
use crate::sightings::Sighting;

const NOT_OBTAINED: i32 = 75;
const CANNOT_CONNECT: i32 = 121;
const LOST: i32 = 123;
const TERMINATED: i32 = 128 + Signal::SIGTERM as i32;

/// A lock that is held shorter than this may not be seen.
const BETWEEN_LOOKS: Duration = Duration::from_millis(100);

pub fn judge(case: &Case<'_>, verdict: &mut Verdict) {
    for run in &case.record.runs {
        let wrong = match &run.end {
            Some(end) => fault_of(case, run, end),
            None => Some("did not end".to_owned()),
        };
        if let Some(wrong) = wrong {
            let text = format!("{wrong}:\n{}", case.describe(run));
            verdict.wrong_exits.push(text);
        }
    }
}

/// What is wrong with the end of this run.
fn fault_of<'a>(case: &Case<'a>, run: &'a Run, end: &End) -> Option<String> {
    let faults: Vec<&Fault> = case.faults(run).collect();
    let met = |effect| faults.iter().any(|fault| fault.kind.has(effect));
    if let Some(signal) = end.status.signal() {
        let is_killed = signal == Signal::SIGKILL as i32 && met(Effect::Kills);
        return (!is_killed).then(|| format!("killed by signal {signal}"));
    }
    let code = end.status.code()?;
    let has_begun = run.life.is_some();
    let ended_with = run.life.as_ref().and_then(|life| life.code);
    let is_disturbed = met(Effect::EndsSession) || met(Effect::Silences);
    let is_right = match code {
        NOT_OBTAINED => !has_begun && was_busy(case, run, end),
        CANNOT_CONNECT => !has_begun && is_disturbed,
        // The command may have been stopped before it could write that it runs.
        LOST => is_disturbed,
        TERMINATED => {
            let can_die_of_it = !has_begun || !run.plan.style.is_deaf();
            ended_with.is_none() && met(Effect::Terms) && can_die_of_it
        }
        own => has_begun && ended_with.map(i32::from) == Some(own),
    };
    if !is_right {
        return Some(format!("exit status {code}"));
    }
    let says_one_line = end.stderr.lines().count() == 1 && end.stderr.starts_with("pglock: ");
    let is_silent = end.stderr.is_empty();
    let says_right = match code {
        NOT_OBTAINED | CANNOT_CONNECT | LOST => says_one_line,
        _ => is_silent,
    };
    (!says_right).then(|| format!("unexpected words with exit status {code}"))
}

/// Whether anybody else held the lock at any time of this run.
fn was_busy(case: &Case<'_>, run: &Run, end: &End) -> bool {
    let meets = |first: Duration, last: Duration| {
        first <= end.at + BETWEEN_LOOKS && run.spawned <= last + BETWEEN_LOOKS
    };
    let has_job = |(other, life): (&Run, &Life)| {
        let dead = life.dead.unwrap_or(end.at);
        other.id != run.id && other.plan.key == run.plan.key && meets(life.started, dead)
    };
    let key = case.key(run.plan.key);
    let was_held = |seen: &Sighting| Some(seen.key) == key && meets(seen.first, seen.gone);
    case.lives().any(has_job) || case.record.sightings.iter().any(was_held)
}
