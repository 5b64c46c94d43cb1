//! Measures `pglock list --json` beside psql sending the same query, on one server with ten thousand advisory locks.
//!
//! `scripts/bench` builds pglock, starts the server and calls this; by itself (`cargo bench`) it only says so.

use std::env;
use std::error::Error;
use std::io::{self, BufRead, BufReader, Write};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

const SESSIONS: u32 = 50;
const LOCKS_OF_EACH: u32 = 200;

/// The largest ratio of medians, pglock to psql, that `--check` lets pass.
const LIMIT: f64 = 1.5;

/// How often each is run, by turns, and how often before that.
const ROUNDS: usize = 25;
const WARM_UP: usize = 3;

/// How often `--check` measures before it believes a ratio over the limit: a busy machine slows both, but not evenly.
const ATTEMPTS: usize = 3;

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let mut out = io::stdout();
    let Ok(pglock) = env::var("BENCH_PGLOCK") else {
        writeln!(
            out,
            "list: run scripts/bench, which starts the server that this needs"
        )?;
        return Ok(ExitCode::SUCCESS);
    };
    let check = env::args().any(|argument| argument == "--check");
    let site = Site {
        pglock,
        socket: env::var("BENCH_SOCKET")?,
        port: env::var("BENCH_PORT")?,
    };
    // While there are none, whose they are is not asked.
    let query = site.query()?;
    let holders: Vec<Holder> = (0..SESSIONS)
        .map(|at| Holder::start(&site, at))
        .collect::<Result<_, _>>()?;
    let mut result = ExitCode::SUCCESS;
    for attempt in 1..=ATTEMPTS {
        let [pglock, psql] = site.measure(&query)?;
        let ratio = pglock.as_secs_f64() / psql.as_secs_f64();
        let milliseconds = |time: Duration| time.as_secs_f64() * 1000.0;
        writeln!(
            out,
            "list --json of {} locks by {SESSIONS} sessions: pglock {:.1} ms, psql with the same query {:.1} ms, \
             ratio {ratio:.2}, limit {LIMIT}",
            SESSIONS * LOCKS_OF_EACH,
            milliseconds(pglock),
            milliseconds(psql),
        )?;
        if !check || ratio <= LIMIT {
            break;
        }
        if attempt == ATTEMPTS {
            writeln!(out, "over the limit in each of {ATTEMPTS} measurements")?;
            result = ExitCode::FAILURE;
        }
    }
    holders.into_iter().try_for_each(Holder::end)?;
    Ok(result)
}

struct Site {
    pglock: String,
    socket: String,
    port: String,
}

/// A session that holds its share of the locks.
struct Holder(Child);

impl Holder {
    fn start(site: &Site, at: u32) -> Result<Self, Box<dyn Error>> {
        // Of both forms: the owners of those that are bigint are looked for in the database, too.
        let key = if at.is_multiple_of(2) {
            format!("{at}, n")
        } else {
            format!("hashtextextended(n::text, {at})")
        };
        let take = format!(
            "SELECT count(pg_advisory_lock({key})) FROM generate_series(1, {LOCKS_OF_EACH}) n"
        );
        let mut psql = site.psql();
        let mut child = psql.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        writeln!(child.stdin.as_mut().ok_or("no input")?, "{take};")?;
        let mut answer = String::new();
        let output = child.stdout.as_mut().ok_or("no output")?;
        BufReader::new(output).read_line(&mut answer)?;
        if answer.trim() != LOCKS_OF_EACH.to_string() {
            return Err(format!("{take}: {answer}").into());
        }
        Ok(Self(child))
    }

    /// The end of its input is psql's end.
    fn end(mut self) -> Result<(), Box<dyn Error>> {
        drop(self.0.stdin.take());
        self.0.wait()?;
        Ok(())
    }
}

impl Site {
    /// What pglock asks the server: while it watches, that is the last statement of an idle session.
    fn query(&self) -> Result<String, Box<dyn Error>> {
        let mut watching = self
            .pglock()
            .arg("--watch=1h")
            .stdout(Stdio::piped())
            .spawn()?;
        let mut output = BufReader::new(watching.stdout.take().ok_or("no output")?);
        while !output.fill_buf()?.ends_with(b"]\n") {
            let read = output.buffer().len();
            output.consume(read);
        }
        let asked = "SELECT query FROM pg_stat_activity WHERE application_name = 'pglock list'";
        let told = self.psql().args(["-c", asked]).output()?;
        watching.kill()?;
        watching.wait()?;
        let query = String::from_utf8(told.stdout)?;
        if !query.contains("pg_locks") || !query.trim_end().ends_with("ON true") {
            return Err(format!("that is not the whole query: {query}").into());
        }
        Ok(query)
    }

    /// The medians of pglock and psql.
    fn measure(&self, query: &str) -> Result<[Duration; 2], Box<dyn Error>> {
        let mut commands = [self.pglock(), self.psql()];
        commands[1].args(["-c", query]);
        let mut times = [Vec::new(), Vec::new()];
        for round in 0..WARM_UP + ROUNDS {
            for (command, times) in commands.iter_mut().zip(&mut times) {
                let begun = Instant::now();
                let status = command.stdout(Stdio::null()).status()?;
                let took = begun.elapsed();
                if !status.success() {
                    return Err(format!("{command:?}: {status}").into());
                }
                if round >= WARM_UP {
                    times.push(took);
                }
            }
        }
        Ok(times.map(|mut times| {
            times.sort_unstable();
            times[times.len() / 2]
        }))
    }

    fn pglock(&self) -> Command {
        let mut command = Command::new(&self.pglock);
        let place = format!(
            "host={} port={} user=postgres dbname=postgres",
            self.socket, self.port
        );
        command
            .args(["list", "--json", "-d", &place])
            .stdin(Stdio::null());
        command
    }

    fn psql(&self) -> Command {
        let mut command = Command::new("psql");
        command
            .args(["-qXAt", "-h", &self.socket, "-p", &self.port])
            .args(["-U", "postgres", "-d", "postgres"])
            .stdin(Stdio::null());
        command
    }
}
