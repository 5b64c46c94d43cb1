//! A queue of waiting pglocks: what they cost while nothing happens, and how fast the lock goes from one to the next once its holder
//! leaves.

use std::fs;
use std::io;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::goals;
use crate::options::Subject;
use crate::processes;
use crate::program::Program;
use crate::report::{Figure, Section};
use crate::site::{Site, Way};
use crate::usage;

/// How many wait at once.
const LENGTHS: [u32; 3] = [2, 50, 300];

/// How long they are watched while nothing happens.
const IDLE: Duration = Duration::from_secs(15);
/// Until then every session has reported what it asked in order to join: one that idles does so after 10 seconds.
const LEAD: Duration = Duration::from_secs(11);

/// Ticks per second of the times in /proc (sysconf(3), `_SC_CLK_TCK`), on every Linux that PostgreSQL runs on.
const TICKS: f64 = 100.0;

pub fn measure(site: &Site) -> Result<Section> {
    let mut figures = Vec::new();
    let mut bounds = Vec::new();
    for length in LENGTHS {
        let queue = Queue::measure(site, length)?;
        let condition = format!("{length} waiters");
        let figure = |measure, unit, value| {
            Figure::single(&condition, Program::Pglock, measure, unit, value)
        };
        let hand_over = queue.hand_over.as_secs_f64() * 1000.0;
        let hand_over = figure("hand-over", "ms", hand_over);
        let statements = figure("statements of a waiter", "a second", queue.statements);
        // A queue of two is over before the processors have woken up.
        if length != LENGTHS[0] {
            bounds.push(hand_over.held_to(goals::HAND_OVER));
        }
        bounds.push(statements.held_to(goals::STATEMENTS));
        figures.push(hand_over);
        figures.push(statements);
        figures.push(figure(
            "server's processor time while idle",
            "%",
            queue.server_cpu * 100.0,
        ));
    }
    Ok(Section {
        subject: Subject::Queue,
        note: "On the Unix socket. A hand-over is the mean time from one command's start to the next one's; the processor time is a share of \
               one processor."
            .to_owned(),
        figures,
        bounds,
    })
}

struct Queue {
    /// The mean, from one command's start to the next one's.
    hand_over: Duration,
    /// Of each waiter, per second.
    statements: f64,
    /// The share of one processor.
    server_cpu: f64,
}

impl Queue {
    /// One holds the lock, as many wait as are wanted; then it lets go, and each runs `true`.
    fn measure(site: &Site, length: u32) -> Result<Self> {
        let mut holder = start(site, "cat", Stdio::piped())?;
        site.await_sessions("pglock: queue", 1)?;
        let waiting: Vec<Child> = (0..length)
            .map(|_| start(site, "true", Stdio::null()))
            .collect::<io::Result<_>>()?;
        site.await_sessions("pglock? queue", length)?;
        sleep(LEAD);

        let (asked, worked, since) = (transactions(site)?, server_cpu(site)?, Instant::now());
        sleep(IDLE);
        let seconds = since.elapsed().as_secs_f64();
        let server_cpu = (server_cpu(site)? - worked) / seconds;
        // The question before was one, too, and the holder's heartbeat.
        let statements = transactions(site)?.saturating_sub(asked + 2);

        let begun = Instant::now();
        drop(holder.stdin.take());
        succeeded(holder)?;
        for waiter in waiting {
            succeeded(waiter)?;
        }
        let hand_over = begun.elapsed() / length;
        usage::reap_all()?;
        Ok(Self {
            hand_over,
            statements: f64::from(u32::try_from(statements)?) / seconds / f64::from(length),
            server_cpu,
        })
    }
}

fn start(site: &Site, command: &str, stdin: Stdio) -> io::Result<Child> {
    let place = site.place(Way::Socket).conninfo();
    let mut pglock = Command::new(&site.pglock);
    // The longest time between heartbeats.
    pglock.args(["run", "--lease", "90s", "-d", &place, "queue", command]);
    pglock.stdin(stdin).spawn()
}

fn succeeded(mut child: Child) -> Result<()> {
    let status = child.wait()?;
    if !status.success() {
        bail!("a pglock in the queue ended with {status}");
    }
    Ok(())
}

/// How many the database has seen; each message of a waiter is one.
fn transactions(site: &Site) -> Result<u64> {
    let sql = "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = 'postgres'";
    Ok(site.ask(sql)?.parse()?)
}

/// The seconds of processor time that the server and all its backends, ended ones too, have taken.
fn server_cpu(site: &Site) -> Result<f64> {
    let file = fs::read_to_string(format!("{}/data/postmaster.pid", site.socket))?;
    let postmaster = file.lines().next().context("no process ID of the server")?;
    let postmaster: u32 = postmaster.parse()?;
    // User and system time, and those of children that were waited for.
    let mut ticks = processes::ticks(postmaster, &[14, 15, 16, 17]);
    for backend in processes::children(postmaster) {
        ticks += processes::ticks(backend, &[14, 15]);
    }
    Ok(f64::from(ticks) / TICKS)
}
