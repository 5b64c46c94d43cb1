//! Tortures pglock: many runs of it on few keys, faults drawn from a seed, and a check of everything that is promised.
//!
//! `scripts/torture` calls this; so does pglock, whose commands are this program again (see `job`).

mod campaign;
mod clock;
mod driver;
mod failover;
mod fault;
mod job;
mod journal;
mod lifeline;
mod link;
mod options;
mod plan;
mod processes;
mod run;
mod sightings;
mod soak;
mod summary;
#[path = "../support/mod.rs"]
mod support;
mod testbed;
mod verdict;
mod victim;
mod watch;
mod way;
mod worker;

use std::env;
use std::error::Error;
use std::io::{self, Write as _};
use std::process::ExitCode;
use std::sync::Arc;

use crate::fault::Kind;
use crate::options::Options;
use crate::testbed::Testbed;

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let mut arguments = env::args_os();
    let word = arguments.nth(1);
    if word.as_ref().is_some_and(|word| word == job::WORD) {
        return job::carry_out(arguments);
    }
    let is_campaign = word.is_some_and(|word| word == lifeline::WORD);
    let options = Options::parse(env::args().skip(if is_campaign { 2 } else { 1 }))?;
    if let Some(count) = options.schedule {
        return schedule(&options, count);
    }
    if !is_campaign {
        return Ok(lifeline::start()?);
    }
    match options.soak {
        Some(crew) => soak::run(&options, crew),
        None => torture(&options),
    }
}

fn torture(options: &Options) -> Result<ExitCode, Box<dyn Error>> {
    let mut out = io::stdout();
    writeln!(out, "torture: seed {}", options.seed)?;
    let testbed = Arc::new(Testbed::build()?);
    let bed = Arc::clone(&testbed);
    lifeline::heed(move || bed.finish());
    if testbed.link.is_none() {
        writeln!(
            out,
            "torture: no network of its own (that takes root and ip): no link is cut"
        )?;
    }
    let record = campaign::run(&testbed, options);
    campaign::sweep(&testbed);
    let record = record?;
    let verdict = verdict::judge(&record);
    write!(out, "{}", summary::table(&record, &verdict, options))?;
    if summary::is_good(&record, &verdict) {
        testbed.clear()?;
        writeln!(out, "\ntorture: all is well")?;
        return Ok(ExitCode::SUCCESS);
    }
    write!(
        out,
        "{}",
        summary::evidence(&summary::sorts(&record, &verdict))
    )?;
    writeln!(
        out,
        "\ntorture: FAILED; the jobs' journal is {}",
        testbed.journal().display()
    )?;
    Ok(ExitCode::FAILURE)
}

/// Prints what the seed has in store.
fn schedule(options: &Options, count: usize) -> Result<ExitCode, Box<dyn Error>> {
    let mut out = io::stdout();
    for step in plan::faults(options.seed, Kind::DRAWN, campaign::PAUSES).take(count) {
        let name = step.kind.traits().name;
        writeln!(out, "after {:?}: {name}, for {:?}", step.pause, step.hold)?;
    }
    Ok(ExitCode::SUCCESS)
}
