//! The programs themselves: how large they are, and how soon `--help` has been printed.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::goals;
use crate::options::{Options, Subject};
use crate::program::Program;
use crate::report::{Figure, Section};
use crate::rounds::{self, Lane};
use crate::site::Site;

const PROGRAMS: [Program; 5] = [
    Program::Pglock,
    Program::Static,
    Program::Psql,
    Program::Flock,
    Program::Etcdctl,
];

const MOST_ROUNDS: u32 = 40;

const SIZE: &str = "size";
const HELP: &str = "--help, wall time";

pub fn measure(site: &Site, options: &Options) -> Result<Section> {
    let present = Program::present(site, options);
    let mut figures = Vec::new();
    let mut bounds = Vec::new();
    let mut lanes = Vec::new();
    for program in PROGRAMS
        .into_iter()
        .filter(|program| present.contains(program))
    {
        let path = file(site, options, program)?;
        let large = Figure::single("", program, SIZE, "MB", megabytes(&path)?);
        if program.is_pglock() {
            bounds.push(large.held_to(goals::size(program)));
        }
        figures.push(large);
        let mut command = Command::new(path);
        command.arg("--help");
        lanes.push(Lane::new(program, command, 1));
    }
    rounds::interleave(&mut lanes, options.rounds.min(MOST_ROUNDS))?;
    let times: Vec<(Program, Figure)> = lanes
        .iter()
        .map(|lane| (lane.key, Figure::times("", lane.key, HELP, lane.wall())))
        .collect();
    for (_, ours) in times.iter().filter(|(program, _)| program.is_pglock()) {
        let peers = times.iter().filter(|(program, _)| !program.is_pglock());
        bounds.extend(peers.map(|(_, peer)| ours.ratio_to(peer, goals::NONE)));
    }
    figures.extend(times.into_iter().map(|(_, figure)| figure));
    Ok(Section {
        subject: Subject::Footprint,
        note: "The size is that of the file alone, without the libraries that it loads. MB are millions of bytes.".to_owned(),
        figures,
        bounds,
    })
}

/// The file that is executed.
fn file(site: &Site, options: &Options, program: Program) -> Result<PathBuf> {
    let name = match program {
        Program::Pglock => return Ok(site.pglock.clone()),
        Program::Static => return options.other_build.clone().context("a second build"),
        Program::Psql => return Ok(site.psql.clone()),
        Program::Flock => "flock",
        Program::Etcdctl => "etcdctl",
        Program::Floor | Program::LibpqFloor | Program::Withlock | Program::Dislock => {
            program.label()
        }
    };
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path)
        .map(|folder| folder.join(name))
        .find(|path| path.is_file())
        .with_context(|| format!("{name} is not in the PATH"))
}

fn megabytes(path: &Path) -> Result<f64> {
    let bytes = fs::metadata(path)
        .with_context(|| path.display().to_string())?
        .len();
    #[expect(clippy::cast_precision_loss, reason = "no program is so large")]
    let bytes = bytes as f64;
    Ok(bytes / 1_000_000.0)
}
