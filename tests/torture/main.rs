//! Tortures pglock: many runs of it on few keys, faults drawn from a seed, and a check of everything that is promised.
//!
//! `scripts/torture` calls this; so does pglock, whose commands are this program again (see `job`).

mod campaign;
mod clock;
mod driver;
mod failover;
mod fault;
mod interrupt;
mod job;
mod journal;
mod link;
mod options;
mod plan;
mod processes;
mod run;
mod sightings;
mod summary;
#[path = "../support/mod.rs"]
mod support;
mod testbed;
mod verdict;
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
    if arguments.nth(1).is_some_and(|word| word == job::WORD) {
        return job::carry_out(arguments);
    }
    let mut arguments = env::args();
    arguments.next();
    let options = Options::parse(arguments)?;
    if let Some(count) = options.schedule {
        return schedule(&options, count);
    }
    torture(&options)
}

fn torture(options: &Options) -> Result<ExitCode, Box<dyn Error>> {
    let mut out = io::stdout();
    writeln!(out, "torture: seed {}", options.seed)?;
    let endings = interrupt::block()?;
    let testbed = Arc::new(Testbed::build()?);
    interrupt::heed(endings, Arc::clone(&testbed));
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
    write!(out, "{}", summary::evidence(&record, &verdict))?;
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
