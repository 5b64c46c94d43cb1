//! Measures pglock beside its peers on the servers that `scripts/bench` has started, and says whether it is where it is to be.

use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;

use machine::Machine;
use options::{Options, Subject};
use report::{Report, Section};
use site::Site;
use tables::{bounds_table, figures_table};

mod footprint;
mod goals;
mod holder;
mod list;
mod machine;
mod memory;
mod options;
mod processes;
mod program;
mod queue;
mod relay;
mod report;
mod round_trips;
mod rounds;
mod site;
mod tables;
mod usage;
mod wake_ups;
mod whole_run;

/// How often `--check` measures before it believes that something is over a limit: a busy machine slows all programs, but not evenly.
const ATTEMPTS: usize = 5;

fn main() -> Result<ExitCode> {
    let options = Options::parse();
    let site = Site::from_environment()?;
    usage::adopt_orphans()?;
    let mut report = Report {
        machine: Machine::look(&site, &options)?,
        rounds: options.rounds,
        subjects: Vec::new(),
    };
    if !options.json {
        writeln!(io::stdout(), "{}", report.machine.summary())?;
    }
    for subject in options.subjects() {
        let section = settled(subject, &site, &options)?;
        if !options.json {
            writeln!(io::stdout(), "\n{}", figures_table(&section))?;
        }
        report.subjects.push(section);
    }
    if options.json {
        writeln!(io::stdout(), "{}", serde_json::to_string_pretty(&report)?)?;
    } else {
        writeln!(io::stdout(), "\n{}", bounds_table(&report.subjects))?;
    }
    Ok(if options.check && !complain(&report.subjects)? {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}

/// With `--check` measured again while something is over its limit; of each bound the best measurement counts.
fn settled(subject: Subject, site: &Site, options: &Options) -> Result<Section> {
    let mut section = measure(subject, site, options)?;
    for _ in 1..ATTEMPTS {
        if !options.check || section.is_within_limits() {
            break;
        }
        let title = subject.title();
        writeln!(
            io::stderr(),
            "bench: over a limit in {title}: measuring once more, as machines are noisy"
        )?;
        let earlier = section;
        section = measure(subject, site, options)?;
        section.keep_best(earlier);
    }
    Ok(section)
}

fn measure(subject: Subject, site: &Site, options: &Options) -> Result<Section> {
    match subject {
        Subject::WholeRun => whole_run::measure(site, options),
        Subject::RoundTrips => round_trips::measure(site, options),
        Subject::Memory => memory::measure(site, options),
        Subject::WakeUps => wake_ups::measure(site, options),
        Subject::Queue => queue::measure(site),
        Subject::List => list::measure(site, options),
        Subject::Footprint => footprint::measure(site, options),
    }
}

/// Says what is over its limit; whether nothing is.
fn complain(sections: &[Section]) -> Result<bool> {
    let mut is_well = true;
    for bound in sections.iter().flat_map(Section::over_limits) {
        let beside = bound.beside.map(|peer| format!(" : {peer}"));
        writeln!(
            io::stderr(),
            "bench: over the limit in each of {ATTEMPTS} measurements: {} {} {}{}: {:.2}, limit {:.2}",
            bound.condition,
            bound.measure,
            bound.program,
            beside.unwrap_or_default(),
            bound.value,
            bound.limit.unwrap_or_default(),
        )?;
        is_well = false;
    }
    Ok(is_well)
}
