//! The measuring loop: every command once in each round, in an order that is drawn anew, so that whatever the machine does meanwhile
//! meets all alike.

use std::process::Command;
use std::time::Duration;

use anyhow::Result;

use crate::usage::{self, Usage};

/// Rounds before the first one that counts: page cache, the server's caches, the processor's clock.
const WARM_UP: u32 = 5;

/// The same orders every time.
const SEED: u64 = 1;

/// A command that is measured, and what was measured.
pub struct Lane<K> {
    pub key: K,
    command: Command,
    /// It runs in each so many-th round.
    every: u32,
    runs: Vec<Usage>,
}

/// The median, the quartiles and the least of some runs.
#[derive(Clone, Copy)]
pub struct Spread {
    pub median: f64,
    pub quartiles: [f64; 2],
    pub least: f64,
    pub runs: usize,
}

impl<K> Lane<K> {
    pub fn new(key: K, command: Command, every: u32) -> Self {
        Self {
            key,
            command,
            every,
            runs: Vec::new(),
        }
    }

    pub fn wall(&self) -> Spread {
        self.spread(|usage| usage.wall)
    }

    pub fn processor(&self) -> Spread {
        self.spread(|usage| usage.processor)
    }

    fn spread(&self, time: fn(&Usage) -> Duration) -> Spread {
        let milliseconds = |usage| time(usage).as_secs_f64() * 1000.0;
        Spread::of(self.runs.iter().map(milliseconds).collect())
    }
}

/// Runs all by turns, when there is no other child.
pub fn interleave<K>(lanes: &mut [Lane<K>], rounds: u32) -> Result<()> {
    interleave_by(lanes, rounds, usage::run)
}

/// Runs all by turns, beside other children.
pub fn interleave_beside_others<K>(lanes: &mut [Lane<K>], rounds: u32) -> Result<()> {
    interleave_by(lanes, rounds, usage::run_beside_others)
}

/// Each runs at least once.
fn interleave_by<K>(
    lanes: &mut [Lane<K>],
    rounds: u32,
    run: fn(&mut Command) -> Result<Usage>,
) -> Result<()> {
    let mut random = fastrand::Rng::with_seed(SEED);
    let mut order: Vec<usize> = (0..lanes.len()).collect();
    for round in 0..WARM_UP + rounds {
        random.shuffle(&mut order);
        let counted = round.checked_sub(WARM_UP);
        for &at in &order {
            let lane = &mut lanes[at];
            let Some(counted) = counted else {
                if lane.every == 1 || round == 0 {
                    run(&mut lane.command)?;
                }
                continue;
            };
            if counted.is_multiple_of(lane.every) {
                lane.runs.push(run(&mut lane.command)?);
            }
        }
    }
    Ok(())
}

impl Spread {
    pub fn of(mut values: Vec<f64>) -> Self {
        values.sort_unstable_by(f64::total_cmp);
        Self {
            median: quantile(&values, 2),
            quartiles: [quantile(&values, 1), quantile(&values, 3)],
            least: quantile(&values, 0),
            runs: values.len(),
        }
    }
}

/// So many quarters from the least to the greatest of sorted values, and between two of them where it falls there.
fn quantile(sorted: &[f64], quarters: usize) -> f64 {
    let place = sorted.len().saturating_sub(1) * quarters;
    let (below, part) = (place / 4, place % 4);
    let Some(&low) = sorted.get(below) else {
        return f64::NAN;
    };
    let high = sorted.get(below + 1).copied().unwrap_or(low);
    let share = [0.0, 0.25, 0.5, 0.75][part];
    low + (high - low) * share
}
