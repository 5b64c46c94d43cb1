//! Many holders on one server: none loses its lock, and a heartbeat costs the server little, however many locks there are.

use std::fs;
use std::io::{Write, stderr};
use std::time::{Duration, Instant};

use postgres::Client;

use crate::support::{Pglock, Running, Server, backend_pid, holders, until};

/// `PGLOCK_TEST_HOLDERS=500 PGLOCK_TEST_HOLD=60` for a long look, on a machine that is otherwise idle.
const HOLDERS: usize = 25;
const OTHER_LOCKS: usize = 10_000;

/// The most that a heartbeat may cost the server's processor, in times of `SELECT 1`, with the look for requests.
const COST_LIMIT: f64 = 2.5;

/// How often to measure while the machine is busy.
const MOST_LOOKS: u32 = 20;

/// How often each statement is sent to measure it.
const SENT: u32 = 2_000;

#[test]
fn many_holders_keep_their_locks_beside_ten_thousand_others() {
    let count = number("PGLOCK_TEST_HOLDERS").unwrap_or(HOLDERS);
    let seconds = number("PGLOCK_TEST_HOLD").unwrap_or(4);
    let server = server();
    let mut others = server.client();
    take_locks(&mut others);
    // Several heartbeats of each in the time that there is.
    let lease = if seconds < 30 { "3s" } else { "30s" };
    let pglock = |at: usize| {
        Pglock::new(&server)
            .through(&["setsid"])
            .args(["run", "--lease", lease, &format!("many-{at}"), "cat"])
            .spawn()
    };
    let mut held: Vec<Running> = (0..count).map(pglock).collect();
    for holder in &mut held {
        holder.write(b"ready\n");
        holder.wait_line("ready");
    }
    let begun = Instant::now();
    let mut beats = Heart::new(&server);
    let mut times = Vec::new();
    until_over(Duration::from_secs(seconds as u64), begun, || {
        times.push(beats.beat());
    });
    times.sort_unstable();
    let slow = times[times.len() * 99 / 100];
    for holder in held {
        holder.let_go().assert_code(0).assert_stderr("");
    }
    let (median, beats) = (times[times.len() / 2], times.len());
    let figures = format!(
        "{count} holders, {seconds} s, {OTHER_LOCKS} other locks: {beats} heartbeats, median {median:?}, p99 {slow:?}"
    );
    show(&figures);
    // Tests that run beside it make anything slow.
    let alone = count != HOLDERS;
    assert!(!alone || slow <= Duration::from_millis(50), "{figures}");
}

#[test]
fn a_heartbeat_costs_little_more_than_the_simplest_statement() {
    let server = server();
    let mut heart = Heart::new(&server);
    let mut plain = server.client();
    let mut figures = Vec::new();
    for locks in [0, OTHER_LOCKS] {
        let mut others = server.client();
        if locks > 0 {
            take_locks(&mut others);
        }
        // One good look will do: whatever else runs only adds.
        let mut ratio = f64::INFINITY;
        for _ in 0..MOST_LOOKS {
            ratio = ratio.min(heart.cost() / cost(&mut plain, "SELECT 1"));
            if ratio <= COST_LIMIT {
                break;
            }
        }
        figures.push(format!("{ratio:.2} of SELECT 1 beside {locks} locks"));
        assert!(ratio <= COST_LIMIT, "{figures:?}");
    }
    show(&figures.join(", "));
}

/// The heartbeat of a real holder, sent by a session that holds the lock in the same way.
struct Heart {
    client: Client,
    heartbeat: String,
}

impl Heart {
    #[track_caller]
    fn new(server: &Server) -> Self {
        let holder = Pglock::new(server)
            .through(&["setsid"])
            .args(["--lease", "3s"])
            .hold("heart");
        let mut client = server.client();
        let backend = holders(&mut client, "heart")[0];
        let query = "SELECT query FROM pg_stat_activity WHERE pid = $1 AND query LIKE '%held=%'";
        let heartbeat: String = until("a heartbeat", || {
            let rows = client.query(query, &[&backend]).unwrap();
            rows.first().map(|row| row.get(0))
        });
        holder.let_go().assert_code(0);
        let own = backend_pid(&mut client).to_string();
        let heartbeat = heartbeat.replace(&backend.to_string(), &own);
        let from_key = &heartbeat[heartbeat.find("pg_advisory_unlock(").unwrap()..];
        let key = &from_key[from_key.find('(').unwrap()..=from_key.find(')').unwrap()];
        let take = format!("SELECT pg_advisory_lock{key}, pg_advisory_lock{key}");
        client.batch_execute(&take).unwrap();
        Self { client, heartbeat }
    }

    /// How long one takes.
    #[track_caller]
    fn beat(&mut self) -> Duration {
        let sent = Instant::now();
        let answer = self.client.simple_query(&self.heartbeat).unwrap();
        let took = sent.elapsed();
        let is_held = |message: &postgres::SimpleQueryMessage| matches!(message, postgres::SimpleQueryMessage::Row(row) if row.get(0) == Some("held"));
        assert!(answer.iter().any(is_held), "{}", self.heartbeat);
        took
    }

    #[track_caller]
    fn cost(&mut self) -> f64 {
        self.beat();
        let heartbeat = self.heartbeat.clone();
        cost(&mut self.client, &heartbeat)
    }
}

/// What the backend's process takes of a processor for one of these, in nanoseconds.
#[track_caller]
fn cost(client: &mut Client, statement: &str) -> f64 {
    let backend = backend_pid(client);
    let spent = || {
        let schedstat = fs::read_to_string(format!("/proc/{backend}/schedstat")).unwrap();
        schedstat.split(' ').next().unwrap().parse::<f64>().unwrap()
    };
    let before = spent();
    for _ in 0..SENT {
        client.simple_query(statement).unwrap();
    }
    (spent() - before) / f64::from(SENT)
}

fn server() -> Server {
    Server::with(&["max_connections = 600", "max_locks_per_transaction = 64"])
}

fn take_locks(client: &mut Client) {
    let take =
        format!("SELECT count(pg_advisory_lock(7, n)) FROM generate_series(1, {OTHER_LOCKS}) n");
    client.batch_execute(&take).unwrap();
}

/// For whoever looks on: cargo keeps back what is printed.
fn show(figures: &str) {
    let _ = writeln!(stderr(), "{figures}");
}

fn until_over(time: Duration, begun: Instant, mut work: impl FnMut()) {
    while begun.elapsed() < time {
        work();
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn number(variable: &str) -> Option<usize> {
    let value = std::env::var(variable).ok()?;
    Some(value.parse().expect("a whole number"))
}
