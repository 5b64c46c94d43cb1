//! A whole run of `true` by every program on every way that it knows.

use anyhow::Result;

use crate::goals;
use crate::options::{Options, Subject};
use crate::program::{Program, WAYS, Work};
use crate::report::{Bound, Figure, Section};
use crate::rounds::{self, Lane};
use crate::site::{Site, Way};

const WALL: &str = "wall time";
const PROCESSOR: &str = "processor time";

type Runs = Lane<(Way, Program)>;

pub fn measure(site: &Site, options: &Options) -> Result<Section> {
    let mut lanes = Vec::new();
    for way in WAYS {
        let place = site.place(way);
        let programs = Program::present(site, options).into_iter();
        for program in programs.filter(|program| program.knows(way)) {
            let command = program.command(site, options, &place, Work::Nothing);
            lanes.push(Lane::new((way, program), command, program.every()));
        }
    }
    rounds::interleave(&mut lanes, options.rounds)?;
    Ok(Section {
        subject: Subject::WholeRun,
        note: "Medians of runs by turns. Processor time is that of the program, of `true` and of all else it starts, pglock's guardian \
               included, and not that of the servers."
            .to_owned(),
        figures: lanes.iter().flat_map(figures).collect(),
        bounds: bounds(&lanes),
    })
}

fn figures(lane: &Runs) -> [Figure; 2] {
    let (way, program) = lane.key;
    [
        Figure::times(way.label(), program, WALL, lane.wall()),
        Figure::times(way.label(), program, PROCESSOR, lane.processor()),
    ]
}

/// Of each build of pglock beside each peer on the same way; what has no way to PostgreSQL stands beside pglock on TCP.
fn bounds(lanes: &[Runs]) -> Vec<Bound> {
    let mut bounds = Vec::new();
    for ours in lanes.iter().filter(|lane| lane.key.1.is_pglock()) {
        let (way, program) = ours.key;
        let [wall, processor] = figures(ours);
        for peer in lanes {
            let is_beside = peer.key.0 == way || (peer.key.0 == Way::Own && way == Way::Tcp);
            if !is_beside || peer.key.1.is_pglock() {
                continue;
            }
            let goal = goals::wall_time(program, peer.key.1, way);
            let [peers_wall, peers_processor] = figures(peer);
            bounds.push(wall.ratio_to(&peers_wall, goal));
            if matches!(peer.key.1, Program::Floor | Program::LibpqFloor) {
                bounds.push(processor.ratio_to(&peers_processor, goals::NONE));
            }
        }
    }
    bounds
}
