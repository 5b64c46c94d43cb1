//! The memory of programs that hold a lock, and of pglocks that wait for one.

use std::process::{Child, Stdio};

use anyhow::{Result, bail};

use crate::goals;
use crate::holder::Holder;
use crate::options::{Options, Subject};
use crate::processes;
use crate::program::{Program, Work};
use crate::report::{Bound, Figure, Section};
use crate::site::{Site, Way};

const PEAK: &str = "peak";

pub fn measure(site: &Site, options: &Options) -> Result<Section> {
    let mut figures = Vec::new();
    let mut bounds: Vec<Bound> = Vec::new();
    for way in [Way::Tcp, Way::Tls, Way::Own] {
        let condition = format!("holding, {}", way.label());
        let programs = Program::present(site, options).into_iter();
        for program in programs.filter(|program| program.knows(way)) {
            let place = site.place(way);
            let holder = Holder::start(program.command(site, options, &place, Work::Stay))?;
            let measured = of_processes(&condition, program, &holder.processes())?;
            if program.is_pglock() {
                bounds.push(measured[0].held_to(goals::memory(way)));
            }
            figures.extend(measured);
        }
    }
    for way in [Way::Tcp, Way::Tls] {
        let builds = Program::present(site, options).into_iter();
        for program in builds.filter(|program| program.is_pglock()) {
            figures.extend(waiting(site, options, program, way)?);
        }
    }
    Ok(Section {
        subject: Subject::Memory,
        note: "The peak is the most that was ever resident of the program itself, everything shared included (VmHWM); Pss and what is \
               private are those of now, of all its processes but the command: pglock's guardian is one of them. MB are millions of bytes."
            .to_owned(),
        figures,
        bounds,
    })
}

/// One waits behind another of its kind.
fn waiting(site: &Site, options: &Options, program: Program, way: Way) -> Result<Vec<Figure>> {
    let place = site.place(way);
    let holder = Holder::start(program.command(site, options, &place, Work::Stay))?;
    let mut command = program.command(site, options, &place, Work::Nothing);
    let mut waiter = command.stdin(Stdio::null()).spawn()?;
    let measured = site.await_sessions("pglock? ", 1).and_then(|()| {
        let condition = format!("waiting, {}", way.label());
        of_processes(&condition, program, &processes::tree(waiter.id()))
    });
    drop(holder);
    end(&mut waiter)?;
    measured
}

fn end(waiter: &mut Child) -> Result<()> {
    let status = waiter.wait()?;
    if !status.success() {
        bail!("a pglock that waited ended with {status}");
    }
    Ok(())
}

fn of_processes(condition: &str, program: Program, pids: &[u32]) -> Result<Vec<Figure>> {
    let all: Vec<_> = pids
        .iter()
        .map(|pid| processes::memory(*pid))
        .collect::<Result<_>>()?;
    let sum = |of: fn(&processes::Memory) -> f64| all.iter().map(of).sum();
    let figure = |measure, value| Figure::single(condition, program, measure, "MB", value);
    Ok(vec![
        figure(PEAK, all[0].peak),
        figure("Pss", sum(|memory| memory.proportional)),
        figure("private", sum(|memory| memory.private)),
    ])
}
