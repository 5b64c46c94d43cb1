//! No two jobs of one key at the same time, except where a session had ended and its job was being stopped.

use std::time::Duration;

use super::{Case, GRACE, HEARTBEAT_DEADLINE, HEARTBEAT_INTERVAL, MARGIN, Verdict};
use crate::fault::Effect;
use crate::plan::Sharing;
use crate::run::{Life, Run};

/// Why jobs may have met.
enum Excuse {
    Stopping,
    Documented(crate::fault::Kind),
}

pub fn judge(case: &Case<'_>, verdict: &mut Verdict) {
    for (younger, life) in case.lives() {
        let was_alone = life.alone == Some(life.started);
        let elders = elders(case, younger, life, was_alone);
        if was_alone && elders.is_empty() {
            continue;
        }
        let excuses: Option<Vec<Excuse>> = elders
            .iter()
            .map(|(elder, theirs)| excuse(case, elder, theirs, life.started))
            .collect();
        let Some(excuses) = excuses.filter(|excuses| !excuses.is_empty()) else {
            let elders = elders.iter().map(|(elder, _)| case.describe(elder));
            verdict.overlaps.push(format!(
                "overlap:\n{}  with\n{}",
                case.describe(younger),
                elders.collect::<String>()
            ));
            continue;
        };
        for excuse in excuses {
            match excuse {
                Excuse::Stopping => verdict.overlaps_while_stopping += 1,
                Excuse::Documented(kind) => *verdict.documented.entry(kind).or_default() += 1,
            }
        }
    }
}

/// Whose jobs were there when the younger's started: those that surely were, and where none of them had the file of the
/// key though it was taken, those that may have been.
fn elders<'a>(
    case: &Case<'a>,
    younger: &'a Run,
    life: &Life,
    was_alone: bool,
) -> Vec<(&'a Run, &'a Life)> {
    let at = life.started;
    let rivals = || {
        let lives = case.lives();
        lives.filter(|(elder, theirs)| exclude(elder, younger) && theirs.started <= at)
    };
    let had_file = |theirs: &Life| theirs.alone.is_some_and(|alone| alone <= at);
    let mut elders: Vec<_> = rivals().filter(|(_, theirs)| theirs.alive >= at).collect();
    if !was_alone && !elders.iter().any(|(_, theirs)| had_file(theirs)) {
        let may_be_there = |theirs: &Life| theirs.dead.is_none_or(|dead| dead >= at);
        let possible = rivals()
            .filter(|(_, theirs)| had_file(theirs) && theirs.alive < at && may_be_there(theirs));
        elders.extend(possible);
    }
    elders
}

/// Whether the locks of these runs exclude each other.
fn exclude(one: &Run, other: &Run) -> bool {
    let both_share = [one, other]
        .iter()
        .all(|run| run.plan.sharing == Sharing::Shared);
    one.id != other.id && one.plan.key == other.plan.key && !both_share
}

/// Why this elder may still have been there at that time.
fn excuse<'a>(case: &Case<'a>, elder: &'a Run, life: &Life, at: Duration) -> Option<Excuse> {
    if let Some(kind) = case.exception(elder) {
        return Some(Excuse::Documented(kind));
    }
    let ended = case
        .faults_of_job(elder)
        .filter(|fault| fault.kind.has(Effect::EndsSession) && fault.from <= at)
        .map(|fault| fault.struck)
        .min()?;
    let dead = life.dead?;
    let limit = ended + to_stop(case, elder) + case.held_up(ended, dead);
    (dead <= limit).then_some(Excuse::Stopping)
}

/// How long it may take from the end of a session to that of its job.
pub fn to_stop<'a>(case: &Case<'a>, run: &'a Run) -> Duration {
    let is_silent = case
        .faults_of_job(run)
        .any(|fault| fault.kind.has(Effect::Silences));
    let to_notice = if is_silent {
        HEARTBEAT_INTERVAL + HEARTBEAT_DEADLINE
    } else {
        Duration::ZERO
    };
    to_notice + GRACE + MARGIN
}
