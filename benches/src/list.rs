//! `pglock list --json` beside psql sending the same query, with few advisory locks on the server and with ten thousand.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::goals;
use crate::options::{Options, Subject};
use crate::program::Program;
use crate::report::{Bound, Figure, Section};
use crate::rounds::{self, Lane};
use crate::site::Site;

/// How many sessions hold locks, and how many each.
const CROWDS: [(u32, u32); 2] = [(10, 10), (50, 200)];

const ROUNDS: u32 = 25;

const WALL: &str = "wall time";

pub fn measure(site: &Site, options: &Options) -> Result<Section> {
    let query = query(site)?;
    let mut figures = Vec::new();
    let mut bounds = Vec::new();
    for (sessions, each) in CROWDS {
        let holders: Vec<Holder> = (0..sessions)
            .map(|at| Holder::start(site, at, each))
            .collect::<Result<_>>()?;
        let mut lanes = lanes(site, options, &query);
        rounds::interleave_beside_others(&mut lanes, ROUNDS)?;
        holders.into_iter().try_for_each(Holder::end)?;
        let condition = format!("{} locks", sessions * each);
        let of_crowd: Vec<Figure> = lanes
            .iter()
            .map(|lane| Figure::times(&condition, lane.key, WALL, lane.wall()))
            .collect();
        bounds.extend(beside_psql(&of_crowd));
        figures.extend(of_crowd);
    }
    Ok(Section {
        subject: Subject::List,
        note: "On the Unix socket, as a superuser; the locks are held by 10 and by 50 sessions."
            .to_owned(),
        figures,
        bounds,
    })
}

fn lanes(site: &Site, options: &Options, query: &str) -> Vec<Lane<Program>> {
    let mut lanes = vec![Lane::new(Program::Pglock, list(site, &site.pglock), 1)];
    if let Some(binary) = &options.other_build {
        lanes.push(Lane::new(Program::Static, list(site, binary), 1));
    }
    let mut psql = site.psql();
    psql.args(["-c", query]);
    lanes.push(Lane::new(Program::Psql, psql, 1));
    lanes
}

fn beside_psql(figures: &[Figure]) -> Vec<Bound> {
    let Some((psql, ours)) = figures.split_last() else {
        return Vec::new();
    };
    ours.iter()
        .map(|figure| figure.ratio_to(psql, goals::LIST))
        .collect()
}

/// A session that holds its share of the locks.
struct Holder(Child);

impl Holder {
    fn start(site: &Site, at: u32, locks: u32) -> Result<Self> {
        // Of both forms: the owners of those that are bigint are looked for in the database, too.
        let key = if at.is_multiple_of(2) {
            format!("{at}, n")
        } else {
            format!("hashtextextended(n::text, {at})")
        };
        let take =
            format!("SELECT count(pg_advisory_lock({key})) FROM generate_series(1, {locks}) n");
        let mut psql = site.psql();
        let mut child = psql.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        writeln!(child.stdin.as_mut().context("no input")?, "{take};")?;
        let mut answer = String::new();
        let output = child.stdout.as_mut().context("no output")?;
        BufReader::new(output).read_line(&mut answer)?;
        if answer.trim() != locks.to_string() {
            bail!("{take}: {answer}");
        }
        Ok(Self(child))
    }

    /// The end of its input is psql's end.
    fn end(mut self) -> Result<()> {
        drop(self.0.stdin.take());
        self.0.wait()?;
        Ok(())
    }
}

/// What pglock asks the server: while it watches, that is the last statement of an idle session.
fn query(site: &Site) -> Result<String> {
    // While there are none, whose they are is not asked.
    site.await_value(
        "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'",
        |locks| locks == 0,
    )?;
    let mut watching = list(site, &site.pglock)
        .arg("--watch=1h")
        .stdout(Stdio::piped())
        .spawn()?;
    let mut output = BufReader::new(watching.stdout.take().context("no output")?);
    while !output.fill_buf()?.ends_with(b"]\n") {
        let read = output.buffer().len();
        output.consume(read);
    }
    let asked = "SELECT query FROM pg_stat_activity WHERE application_name = 'pglock list'";
    let told = site.ask(asked);
    watching.kill()?;
    watching.wait()?;
    let query = told?;
    if !query.contains("pg_locks") || !query.ends_with("ON true") {
        bail!("that is not the whole query: {query}");
    }
    Ok(query)
}

fn list(site: &Site, binary: &Path) -> Command {
    let (socket, port) = (&site.socket, site.port);
    let place = format!("host={socket} port={port} user=postgres dbname=postgres");
    let mut pglock = Command::new(binary);
    pglock
        .args(["list", "--json", "-d", &place])
        .stdin(Stdio::null());
    pglock
}
