//! Measures a queue of waiting pglocks on one server: what they cost while nothing happens, and how fast the lock goes from one to
//! the next once its holder leaves.
//!
//! `scripts/bench` builds pglock, starts the server and calls this; by itself (`cargo bench`) it only says so.

use std::env;
use std::error::Error;
use std::fs;
use std::io::{self, Write};
use std::process::{Child, Command, ExitCode, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How many wait at once.
const LENGTHS: [u32; 3] = [2, 50, 300];

/// How long they are watched while nothing happens.
const IDLE: Duration = Duration::from_secs(15);
/// Until then every session has reported what it asked in order to join: one that idles does so after 10 seconds.
const LEAD: Duration = Duration::from_secs(11);

/// The longest mean hand-over that `--check` lets pass, of the longer queues. It is 10 to 20 ms on two processors, most of it the start
/// of the command and the end of processes and sessions, which share them with the server.
const HAND_OVER_LIMIT: Duration = Duration::from_millis(60);

/// The most that one who waits may ask, in statements per second, and some more: sessions report in lumps.
const STATEMENTS_LIMIT: f64 = 1.3;

/// How long everything may take that happens once.
const PATIENCE: Duration = Duration::from_secs(120);

/// Ticks per second of the times in /proc (sysconf(3), `_SC_CLK_TCK`), on every Linux that PostgreSQL runs on.
const TICKS: f64 = 100.0;

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let mut out = io::stdout();
    let Ok(pglock) = env::var("BENCH_PGLOCK") else {
        writeln!(
            out,
            "queue: run scripts/bench, which starts the server that this needs"
        )?;
        return Ok(ExitCode::SUCCESS);
    };
    let check = env::args().any(|argument| argument == "--check");
    let site = Site {
        pglock,
        socket: env::var("BENCH_SOCKET")?,
        port: env::var("BENCH_PORT")?,
    };
    writeln!(
        out,
        "waiting in line: {:>8} {:>14} {:>22} {:>24}",
        "waiters", "hand-over", "statements/s, waiter", "server CPU while idle"
    )?;
    let mut are_within = true;
    for length in LENGTHS {
        let queue = site.measure(length)?;
        writeln!(
            out,
            "                 {length:>8} {:>11.2} ms {:>22.2} {:>22.1} %",
            queue.hand_over.as_secs_f64() * 1000.0,
            queue.statements,
            queue.server_cpu * 100.0
        )?;
        let is_fast = length == LENGTHS[0] || queue.hand_over <= HAND_OVER_LIMIT;
        are_within &= is_fast && queue.statements <= STATEMENTS_LIMIT;
    }
    if check && !are_within {
        let limit = HAND_OVER_LIMIT.as_millis();
        writeln!(
            out,
            "over a limit: {limit} ms and {STATEMENTS_LIMIT} statements/s"
        )?;
        return Ok(ExitCode::FAILURE);
    }
    Ok(ExitCode::SUCCESS)
}

struct Site {
    pglock: String,
    socket: String,
    port: String,
}

struct Queue {
    /// The mean, from one command's start to the next one's.
    hand_over: Duration,
    /// Of each waiter, per second.
    statements: f64,
    /// The share of one processor.
    server_cpu: f64,
}

impl Site {
    /// One holds the lock, as many wait as are wanted; then it lets go, and each runs `true`.
    fn measure(&self, length: u32) -> Result<Queue, Box<dyn Error>> {
        let mut holder = self.run("cat", Stdio::piped())?;
        self.await_sessions("pglock: queue", 1)?;
        let waiting: io::Result<Vec<Child>> = (0..length)
            .map(|_| self.run("true", Stdio::null()))
            .collect();
        let waiting = waiting?;
        self.await_sessions("pglock? queue", length)?;
        sleep(LEAD);

        let (asked, worked, since) = (self.transactions()?, self.server_cpu()?, Instant::now());
        sleep(IDLE);
        let seconds = since.elapsed().as_secs_f64();
        let server_cpu = (self.server_cpu()? - worked) / seconds;
        // The question before was one, too, and the holder's heartbeat.
        let statements = self.transactions()?.saturating_sub(asked + 2);

        let begun = Instant::now();
        drop(holder.stdin.take());
        succeeded(holder)?;
        for waiter in waiting {
            succeeded(waiter)?;
        }
        Ok(Queue {
            hand_over: begun.elapsed() / length,
            statements: f64::from(u32::try_from(statements)?) / seconds / f64::from(length),
            server_cpu,
        })
    }

    fn run(&self, command: &str, stdin: Stdio) -> io::Result<Child> {
        let (socket, port) = (&self.socket, &self.port);
        let place = format!("host={socket} port={port} user=bench dbname=postgres");
        let mut pglock = Command::new(&self.pglock);
        // The longest time between heartbeats.
        pglock.args(["run", "--lease", "90s", "-d", &place, "queue", command]);
        pglock.stdin(stdin).spawn()
    }

    fn await_sessions(&self, called: &str, wanted: u32) -> Result<(), Box<dyn Error>> {
        let begun = Instant::now();
        let sql = format!(
            "SELECT count(*) FROM pg_stat_activity WHERE starts_with(application_name, '{called}')"
        );
        while self.ask(&sql)?.parse::<u32>()? < wanted {
            if begun.elapsed() > PATIENCE {
                return Err(format!("no {wanted} sessions called {called}").into());
            }
            sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// How many the database has seen; each message of a waiter is one.
    fn transactions(&self) -> Result<u64, Box<dyn Error>> {
        let sql =
            "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = 'postgres'";
        Ok(self.ask(sql)?.parse()?)
    }

    fn ask(&self, sql: &str) -> Result<String, Box<dyn Error>> {
        let options = [
            "-qXAt",
            "-U",
            "postgres",
            "-d",
            "postgres",
            "-h",
            &self.socket,
        ];
        let mut psql = Command::new("psql");
        let answer = psql
            .args(options)
            .args(["-p", &self.port, "-c", sql])
            .output()?;
        if !answer.status.success() {
            return Err(String::from_utf8_lossy(&answer.stderr).into());
        }
        Ok(String::from_utf8(answer.stdout)?.trim().to_owned())
    }

    /// The seconds of processor time that the server and all its backends, ended ones too, have taken.
    fn server_cpu(&self) -> Result<f64, Box<dyn Error>> {
        let pid = fs::read_to_string(format!("{}/data/postmaster.pid", self.socket))?;
        let postmaster = pid
            .lines()
            .next()
            .ok_or("no process ID of the server")?
            .to_owned();
        let mut ticks = 0;
        for entry in fs::read_dir("/proc")? {
            let Ok(stat) = fs::read_to_string(entry?.path().join("stat")) else {
                continue;
            };
            // The name in parentheses may itself hold blanks.
            let Some((pid, (_, rest))) = stat
                .split_once(' ')
                .and_then(|(pid, rest)| Some((pid, rest.rsplit_once(") ")?)))
            else {
                continue;
            };
            let fields: Vec<&str> = rest.split(' ').collect();
            let time = |field: usize| fields[field].parse::<u64>().unwrap_or(0);
            // Fields 14 to 17 of proc(5): user and system time, and those of children that were waited for.
            if pid == postmaster {
                ticks += time(11) + time(12) + time(13) + time(14);
            } else if fields[1] == postmaster {
                ticks += time(11) + time(12);
            }
        }
        Ok(f64::from(u32::try_from(ticks)?) / TICKS)
    }
}

fn succeeded(mut child: Child) -> Result<(), Box<dyn Error>> {
    let status = child.wait()?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("a pglock in the queue ended with {status}").into())
    }
}
