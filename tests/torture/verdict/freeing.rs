//! Every lock is free soon after its job's end.

use std::time::Duration;

use super::{Case, LEASE, MARGIN, Verdict};
use crate::fault::{Fault, Kind};
use crate::run::{Life, Run};

/// What the server may take beyond the lease to give up on a host that it does not hear of.
const BEYOND_LEASE: Duration = Duration::from_secs(5);

pub fn judge(case: &Case<'_>, verdict: &mut Verdict) {
    for (run, life) in case.lives() {
        let Some(dead) = life.dead else { continue };
        let faults: Vec<&Fault> = case.faults(run).collect();
        let from = faults
            .iter()
            .filter_map(|fault| undone(fault))
            .fold(dead, Duration::max);
        let Some(freed) = freed(case, run, life) else {
            continue;
        };
        let took = freed.saturating_sub(from);
        let is_cut_off = faults.iter().any(|fault| fault.kind == Kind::LinkDown);
        let bound = if is_cut_off {
            LEASE + BEYOND_LEASE
        } else {
            MARGIN
        };
        if took > bound + case.held_up(from, freed) {
            let text = format!(
                "free only after {took:.3?}, not {bound:?}:\n{}",
                case.describe(run)
            );
            verdict.late.push(text);
        }
        let mut kinds: Vec<Option<Kind>> = faults.iter().map(|fault| Some(fault.kind)).collect();
        if is_cut_off {
            kinds = vec![Some(Kind::LinkDown)];
        } else if kinds.is_empty() {
            kinds.push(None);
        }
        for kind in kinds {
            let longest = verdict.longest_to_free.entry(kind).or_default();
            *longest = took.max(*longest);
        }
    }
}

/// When the fault no longer kept the server from hearing of the end; `None` if that is no reason for it to wait.
fn undone(fault: &Fault) -> Option<Duration> {
    // The server gives up on a cable that is pulled.
    (fault.kind != Kind::LinkDown).then_some(fault.until)
}

/// When the lock was seen to be held for this run no more.
fn freed(case: &Case<'_>, run: &Run, life: &Life) -> Option<Duration> {
    let dead = life.dead?;
    // A pooler gives the backend, and this key, to another run.
    let next = case
        .lives()
        .filter(|(other, theirs)| other.id != run.id && theirs.backend == life.backend)
        .map(|(_, theirs)| theirs.started)
        .filter(|started| *started > life.started)
        .min();
    let last = case
        .record
        .sightings
        .iter()
        .filter(|seen| (seen.backend, seen.key) == (life.backend, life.key))
        .find(|seen| seen.first <= dead && seen.gone >= life.started)
        .map_or(dead, |seen| seen.gone.max(dead));
    Some(next.map_or(last, |next| last.min(next.max(dead))))
}
