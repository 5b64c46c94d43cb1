//! Measures the wall time of a whole `pglock run x true` against the bare floor, `benches/floor.c`, on one server.
//!
//! `scripts/bench` builds both programs, starts the server and calls this; by itself (`cargo bench`) it only says so.

use std::env::{self, VarError};
use std::error::Error;
use std::io::{self, Write};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

/// The largest ratio of medians, pglock to floor, that `--check` lets pass.
const LIMIT: f64 = 1.5;

/// How often `--check` measures before it believes a ratio over the limit: a busy machine slows both programs, but not evenly.
const ATTEMPTS: usize = 5;

/// Runs before the first one that counts, of each program: page cache, the server's caches, the processor's clock.
const WARM_UP: usize = 20;

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let mut out = io::stdout();
    let Some(bench) = Bench::from_environment()? else {
        writeln!(
            out,
            "whole_run: run scripts/bench, which starts the server that this needs"
        )?;
        return Ok(ExitCode::SUCCESS);
    };
    let check = env::args().any(|argument| argument == "--check");

    for attempt in 1.. {
        let results = bench.measure()?;
        write!(out, "{}", table(&results, bench.rounds))?;
        let worst = results.iter().map(Measured::ratio).fold(0.0, f64::max);
        if !check {
            break;
        }
        if worst <= LIMIT {
            writeln!(out, "within the limit of {LIMIT}")?;
            break;
        }
        if attempt == ATTEMPTS {
            writeln!(
                out,
                "over the limit of {LIMIT} in each of {ATTEMPTS} measurements"
            )?;
            return Ok(ExitCode::FAILURE);
        }
        writeln!(
            out,
            "over the limit of {LIMIT}: measuring once more, as machines are noisy"
        )?;
    }
    Ok(ExitCode::SUCCESS)
}

/// What `scripts/bench` hands over: two programs, a server, and how many rounds to run.
struct Bench {
    pglock: String,
    floor: String,
    ways: [Way; 2],
    port: String,
    rounds: usize,
}

/// One way to the server.
struct Way {
    name: &'static str,
    /// An address, or the folder of the Unix socket.
    host: String,
}

impl Bench {
    /// Reads `BENCH_*`; `None` if the first of them is not set.
    fn from_environment() -> Result<Option<Self>, Box<dyn Error>> {
        let pglock = match env::var("BENCH_PGLOCK") {
            Err(VarError::NotPresent) => return Ok(None),
            pglock => pglock?,
        };
        let ways = [
            Way {
                name: "TCP",
                host: env::var("BENCH_ADDRESS")?,
            },
            Way {
                name: "Unix socket",
                host: env::var("BENCH_SOCKET")?,
            },
        ];
        Ok(Some(Self {
            pglock,
            floor: env::var("BENCH_FLOOR")?,
            ways,
            port: env::var("BENCH_PORT")?,
            rounds: env::var("BENCH_ROUNDS")?.parse()?,
        }))
    }

    fn measure(&self) -> Result<Vec<Measured>, Box<dyn Error>> {
        self.ways.iter().map(|way| self.measure_way(way)).collect()
    }

    /// Runs both programs by turns, so that whatever the machine does meanwhile meets both alike.
    fn measure_way(&self, way: &Way) -> Result<Measured, Box<dyn Error>> {
        let mut pglock = self.pglock_command(way);
        let mut floor = self.floor_command(way);
        let mut pglock_times = Vec::with_capacity(self.rounds);
        let mut floor_times = Vec::with_capacity(self.rounds);
        for round in 0..WARM_UP + self.rounds {
            let pglock_time = timed(&mut pglock)?;
            let floor_time = timed(&mut floor)?;
            if round >= WARM_UP {
                pglock_times.push(pglock_time);
                floor_times.push(floor_time);
            }
        }
        Ok(Measured {
            way: way.name,
            pglock: median(pglock_times),
            floor: median(floor_times),
        })
    }

    fn pglock_command(&self, way: &Way) -> Command {
        let Way { host, .. } = way;
        let port = &self.port;
        let mut command = Command::new(&self.pglock);
        command
            .arg("run")
            .arg("-d")
            .arg(format!(
                "host={host} port={port} user=bench dbname=postgres sslmode=disable"
            ))
            .args(["x", "true"]);
        command
    }

    fn floor_command(&self, way: &Way) -> Command {
        let mut command = Command::new(&self.floor);
        command.args([
            "-h", &way.host, "-p", &self.port, "-U", "bench", "-d", "postgres", "42", "true",
        ]);
        command
    }
}

/// The medians over one way to the server.
struct Measured {
    way: &'static str,
    pglock: Duration,
    floor: Duration,
}

impl Measured {
    fn ratio(&self) -> f64 {
        self.pglock.as_secs_f64() / self.floor.as_secs_f64()
    }
}

/// Times one run from before its start until it is reaped; a run that fails is an error, not a time.
fn timed(command: &mut Command) -> Result<Duration, Box<dyn Error>> {
    command.stdin(Stdio::null());
    let start = Instant::now();
    let status = command
        .status()
        .map_err(|error| format!("{command:?}: {error}"))?;
    let time = start.elapsed();
    if !status.success() {
        return Err(format!("{command:?}: {status}").into());
    }
    Ok(time)
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    let middle = times.len() / 2;
    if times.len().is_multiple_of(2) {
        (times[middle - 1] + times[middle]) / 2
    } else {
        times[middle]
    }
}

fn table(results: &[Measured], rounds: usize) -> String {
    let head = format!(
        "whole run of `true`, medians of {rounds} rounds each, by turns, trust, no TLS\n{:<12} {:>10} {:>10} {:>6}\n",
        "", "pglock", "floor", "ratio"
    );
    results
        .iter()
        .map(row)
        .fold(head, |table, row| table + &row)
}

fn row(result: &Measured) -> String {
    let milliseconds = |time: Duration| time.as_secs_f64() * 1000.0;
    format!(
        "{:<12} {:>7.2} ms {:>7.2} ms {:>6.2}\n",
        result.way,
        milliseconds(result.pglock),
        milliseconds(result.floor),
        result.ratio()
    )
}
