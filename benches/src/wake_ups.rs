//! How often programs wake up while they hold a lock and nothing happens.

use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::Result;

use crate::goals;
use crate::holder::Holder;
use crate::options::{Options, Subject};
use crate::processes;
use crate::program::{Program, Work};
use crate::report::{Bound, Figure, Section};
use crate::site::{Site, Way};

/// Until then whoever has just got a lock has come to rest.
const SETTLED: Duration = Duration::from_secs(2);
/// Six heartbeats of pglock's default lease.
const PERIOD: Duration = Duration::from_secs(30);

pub fn measure(site: &Site, options: &Options) -> Result<Section> {
    let mut holders = Vec::new();
    for way in [Way::Tcp, Way::Own] {
        let programs = Program::present(site, options).into_iter();
        for program in programs.filter(|program| program.knows(way)) {
            let place = site.place(way);
            let holder = Holder::start(program.command(site, options, &place, Work::Stay))?;
            holders.push((way, program, holder));
        }
    }
    sleep(SETTLED);
    let processes: Vec<Vec<u32>> = holders.iter().map(|each| each.2.processes()).collect();
    let count = || -> Result<Vec<f64>> {
        let waits = |pids: &Vec<u32>| pids.iter().map(|pid| processes::waits(*pid)).sum();
        processes.iter().map(waits).collect()
    };
    let (before, begun) = (count()?, Instant::now());
    sleep(PERIOD);
    let (after, minutes) = (count()?, begun.elapsed().as_secs_f64() / 60.0);

    let mut figures = Vec::new();
    let mut bounds: Vec<Bound> = Vec::new();
    for (at, (way, program, _)) in holders.iter().enumerate() {
        let a_minute = (after[at] - before[at]) / minutes;
        let figure = Figure::single(way.label(), *program, "wake-ups", "a minute", a_minute);
        if program.is_pglock() {
            bounds.push(figure.held_to(goals::WAKE_UPS));
        }
        figures.push(figure);
    }
    Ok(Section {
        subject: Subject::WakeUps,
        note: format!(
            "Voluntary context switches of all processes but the command, all programs at once, in {} s. In these were six heartbeats of \
             pglock and its lease of 30 s; flock, psql and the floors look after nothing.",
            PERIOD.as_secs()
        ),
        figures,
        bounds,
    })
}
