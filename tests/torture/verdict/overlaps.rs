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
        if life.alone == Some(life.started) {
            continue;
        }
        let elders: Vec<_> = case
            .lives()
            .filter(|(elder, theirs)| are_rivals((elder, theirs), (younger, life)))
            .collect();
        let excuses: Option<Vec<Excuse>> = elders
            .iter()
            .map(|(elder, theirs)| excuse(case, elder, theirs, life.started))
            .collect();
        match excuses {
            Some(excuses) if !excuses.is_empty() => {
                for excuse in excuses {
                    match excuse {
                        Excuse::Stopping => verdict.overlaps_while_stopping += 1,
                        Excuse::Documented(kind) => {
                            *verdict.documented.entry(kind).or_default() += 1
                        }
                    }
                }
            }
            _ => {
                let elders = elders.iter().map(|(elder, _)| case.describe(elder));
                verdict.overlaps.push(format!(
                    "overlap:\n{}  with\n{}",
                    case.describe(younger),
                    elders.collect::<String>()
                ));
            }
        }
    }
}

/// Whether the elder's job was there when the younger's started, and they exclude each other.
fn are_rivals((elder, theirs): (&Run, &Life), (younger, life): (&Run, &Life)) -> bool {
    let both_share = [elder, younger]
        .iter()
        .all(|run| run.plan.sharing == Sharing::Shared);
    elder.id != younger.id
        && elder.plan.key == younger.plan.key
        && !both_share
        && theirs.started <= life.started
        && theirs.dead.is_none_or(|dead| dead >= life.started)
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
