//! Measures the wall time of a whole `pglock run x true` on one server: without TLS against the bare floor, `benches/floor.c`, and
//! with TLS against itself without.
//!
//! `scripts/bench` builds both programs, starts the server and calls this; by itself (`cargo bench`) it only says so.

use std::env::{self, VarError};
use std::error::Error;
use std::io::{self, Write};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

/// The largest ratio of medians, pglock to floor, that `--check` lets pass. It is 1.56 to 1.63; the floor has no guardian (0.3 ms),
/// shields and proves nothing (0.3 ms), and starts without a runtime (1 ms).
const FLOOR_LIMIT: f64 = 1.75;

/// The same for pglock with TLS, which verifies the server, to pglock without. With OpenSSL 3.0 it is 2.3: 5 ms to set OpenSSL up, and
/// two round trips of 3 ms in which both sides calculate; psql's runs grow by the same.
const TLS_LIMIT: f64 = 2.75;

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
        if !check {
            break;
        }
        if results.iter().all(Measured::is_within_limit) {
            writeln!(out, "within the limits")?;
            break;
        }
        if attempt == ATTEMPTS {
            writeln!(out, "over a limit in each of {ATTEMPTS} measurements")?;
            return Ok(ExitCode::FAILURE);
        }
        writeln!(
            out,
            "over a limit: measuring once more, as machines are noisy"
        )?;
    }
    Ok(ExitCode::SUCCESS)
}

/// What `scripts/bench` hands over: two programs, a server, and how many rounds to run.
struct Bench {
    pglock: String,
    floor: String,
    address: String,
    socket: String,
    port: String,
    /// The file of the certificate that the server has for `localhost`.
    certificate: String,
    rounds: usize,
}

/// Two commands that do the same errand.
struct Pair {
    name: &'static str,
    pglock: Command,
    other: Command,
    limit: f64,
}

impl Bench {
    /// Reads `BENCH_*`; `None` if the first of them is not set.
    fn from_environment() -> Result<Option<Self>, Box<dyn Error>> {
        let pglock = match env::var("BENCH_PGLOCK") {
            Err(VarError::NotPresent) => return Ok(None),
            pglock => pglock?,
        };
        Ok(Some(Self {
            pglock,
            floor: env::var("BENCH_FLOOR")?,
            address: env::var("BENCH_ADDRESS")?,
            socket: env::var("BENCH_SOCKET")?,
            port: env::var("BENCH_PORT")?,
            certificate: env::var("BENCH_CERTIFICATE")?,
            rounds: env::var("BENCH_ROUNDS")?.parse()?,
        }))
    }

    fn measure(&self) -> Result<Vec<Measured>, Box<dyn Error>> {
        let pairs = self.pairs().into_iter();
        pairs.map(|pair| self.measure_pair(pair)).collect()
    }

    fn pairs(&self) -> [Pair; 3] {
        let plain = |host| format!("host={host} sslmode=disable");
        let tls = format!(
            "host=localhost hostaddr={} sslmode=verify-full sslrootcert={}",
            self.address, self.certificate
        );
        [
            Pair {
                name: "TCP : floor",
                pglock: self.pglock_command(&plain(&self.address)),
                other: self.floor_command(&self.address),
                limit: FLOOR_LIMIT,
            },
            Pair {
                name: "Unix socket : floor",
                pglock: self.pglock_command(&plain(&self.socket)),
                other: self.floor_command(&self.socket),
                limit: FLOOR_LIMIT,
            },
            Pair {
                name: "TLS : TCP",
                pglock: self.pglock_command(&tls),
                other: self.pglock_command(&plain(&self.address)),
                limit: TLS_LIMIT,
            },
        ]
    }

    /// Runs both commands by turns, so that whatever the machine does meanwhile meets both alike.
    fn measure_pair(&self, mut pair: Pair) -> Result<Measured, Box<dyn Error>> {
        let mut pglock_times = Vec::with_capacity(self.rounds);
        let mut other_times = Vec::with_capacity(self.rounds);
        for round in 0..WARM_UP + self.rounds {
            let pglock_time = timed(&mut pair.pglock)?;
            let other_time = timed(&mut pair.other)?;
            if round >= WARM_UP {
                pglock_times.push(pglock_time);
                other_times.push(other_time);
            }
        }
        Ok(Measured {
            name: pair.name,
            pglock: median(pglock_times),
            other: median(other_times),
            limit: pair.limit,
        })
    }

    fn pglock_command(&self, way: &str) -> Command {
        let port = &self.port;
        let mut command = Command::new(&self.pglock);
        command
            .args(["run", "-d"])
            .arg(format!("{way} port={port} user=bench dbname=postgres"))
            .args(["x", "true"]);
        command
    }

    fn floor_command(&self, host: &str) -> Command {
        let mut command = Command::new(&self.floor);
        command.args([
            "-h", host, "-p", &self.port, "-U", "bench", "-d", "postgres", "42", "true",
        ]);
        command
    }
}

/// The medians of a pair.
struct Measured {
    name: &'static str,
    pglock: Duration,
    other: Duration,
    limit: f64,
}

impl Measured {
    fn ratio(&self) -> f64 {
        self.pglock.as_secs_f64() / self.other.as_secs_f64()
    }

    fn is_within_limit(&self) -> bool {
        self.ratio() <= self.limit
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
        "whole run of `true`, medians of {rounds} rounds each, by turns, trust\n{:<20} {:>10} {:>10} {:>6} {:>6}\n",
        "", "pglock", "other", "ratio", "limit"
    );
    results
        .iter()
        .map(row)
        .fold(head, |table, row| table + &row)
}

fn row(result: &Measured) -> String {
    let milliseconds = |time: Duration| time.as_secs_f64() * 1000.0;
    format!(
        "{:<20} {:>7.2} ms {:>7.2} ms {:>6.2} {:>6.2}\n",
        result.name,
        milliseconds(result.pglock),
        milliseconds(result.other),
        result.ratio(),
        result.limit
    )
}
