//! `pglock release` of what a pglock holds: it is asked to, stops its command, and lets go when that is dead.

use std::fs;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use nix::sys::signal::Signal;
use nix::unistd::Pid;
use postgres::Client;
use postgres::error::SqlState;

use crate::support::{
    Pglock, PoolMode, Running, Server, Shutdown, Site, Waiter, Watchdog, assert_free,
    await_heartbeats, child_named, holders, process_state, tickets, until,
};

/// A job that needs three seconds to stop, and writes down its end.
const SLOW: &str = r#"trap 'trap "" TERM; sleep 3; echo "first has ended" >>"$0"; exit 5' TERM
    exec 3<&0; cat <&3 >/dev/null & echo $$; wait; wait"#;

/// What comes after it: whether the first is still there, and then a line for its own beginning.
const NEXT: &str =
    r#"kill -0 "$1" 2>/dev/null && echo overlap >>"$0"; echo "second has begun" >>"$0""#;

#[test]
fn a_job_that_needs_time_to_stop_never_overlaps_with_the_next() {
    let database = database();
    let (scratch, journal) = journal();
    let journal = journal.to_str().expect("a plain path");
    // A heartbeat every 1.5 s.
    let options = ["run", "--lease", "9s", "--grace", "4s", "slow"];
    let mut first = pglock(&database)
        .args(options)
        .args(["sh", "-c", SLOW, journal])
        .spawn();
    first.wait_output("its process", |first| first.stdout_so_far().ends_with('\n'));
    let process = first.stdout_so_far().trim().to_owned();
    let second = pglock(&database)
        .args(["run", "slow", "sh", "-c", NEXT, journal, &process])
        .spawn();
    let mut client = client(&database);
    until("the second in line", || tickets(&mut client) == 1);

    let released = release(&database, &["slow"]).run();
    released.assert_code(0).assert_silent();
    assert!(released.took >= Duration::from_secs(3));
    second.wait().assert_code(0).assert_silent();
    let ended = first.wait();
    let said = ended
        .stderr
        .strip_prefix("pglock: slow was released on request of postgres from ");
    ended.assert_code(5).assert_one_message().assert(
        said.is_some_and(|said| said.ends_with("); the command exited with 5\n")),
        "who asked",
    );
    let order = fs::read_to_string(journal).unwrap();
    assert_eq!(order, "first has ended\nsecond has begun\n");
    drop(scratch);
}

#[test]
fn a_job_that_does_not_stop_is_killed_after_the_grace_and_its_helpers_with_it() {
    let database = database();
    let script = r#"trap "" TERM; exec 3<&0; cat <&3 >/dev/null & echo $!; while :; do wait; done"#;
    let options = ["run", "--lease", "3s", "--grace", "300ms", "stubborn"];
    let mut job = pglock(&database)
        .args(options)
        .args(["sh", "-c", script])
        .spawn();
    job.wait_output("its helper", |job| job.stdout_so_far().ends_with('\n'));
    let helper = Pid::from_raw(job.stdout_so_far().trim().parse().unwrap());
    release(&database, &["stubborn"])
        .run()
        .assert_code(0)
        .assert_silent();
    job.wait()
        .assert_code(137)
        .assert_one_message()
        .assert_stderr_has("; the command was killed by signal 9\n");
    assert_eq!(process_state(helper), None);
}

#[test]
fn by_default_a_holder_answers_within_a_few_seconds_and_nobody_is_asked_on_a_terminal() {
    let database = database();
    let job = pglock(&database).hold("default");
    let released = release(&database, &["default"]).on_terminal().wait();
    released.assert_code(0).assert_stdout("");
    // A heartbeat is at most 5 s away.
    assert!(released.took < Duration::from_secs(10), "{released:?}");
    job.wait().assert_code(143).assert_one_message();
}

#[test]
fn every_kind_of_hold_is_given_up() {
    let database = database();
    for (name, options, code) in [
        ("warned", &["--on-lost", "warn"][..], 143),
        ("closed", &["-o"], 143),
        ("alone", &["--also", "with"], 143),
        ("slotted", &["--slots", "3"], 143),
        ("shared", &["-s"], 143),
        ("in-transaction", &["--scope", "transaction"], 143),
        (
            "timed",
            &["--max-runtime", "60s", "--hold-at-least", "60s"],
            143,
        ),
    ] {
        let job = hold(&database, options, name);
        let of_all = if name == "alone" { "with" } else { name };
        release(&database, &[of_all])
            .run()
            .assert_code(0)
            .assert_silent();
        job.wait()
            .assert_code(code)
            .assert_one_message()
            .assert_stderr_has(&format!(
                "pglock: {name} was released on request of postgres from "
            ));
    }
}

#[test]
fn a_lock_that_is_only_kept_is_given_up_with_the_status_of_the_command() {
    let database = database();
    let words = [
        "--hold-at-least",
        "60s",
        "kept",
        "sh",
        "-c",
        "echo ran; exit 3",
    ];
    let mut job = pglock(&database)
        .args(["run", "--lease", "3s"])
        .args(words)
        .spawn();
    job.wait_line("ran");
    release(&database, &["kept"])
        .run()
        .assert_code(0)
        .assert_silent();
    job.wait()
        .assert_code(3)
        .assert_one_message()
        .assert_stderr_has("kept was released on request of postgres from ");
}

#[test]
fn all_who_share_a_lock_are_asked_at_once_and_with_pid_only_one() {
    let database = database();
    let shared = |name| hold(&database, &["-s"], name);
    let [mut first, second, third] = [(); 3].map(|()| shared("several"));
    let mut client = client(&database);
    let backend = until("the second's backend", || {
        let query = "SELECT pid FROM pg_stat_activity WHERE application_name LIKE $1";
        let called = format!("pglock: several (%:{})", second.pid());
        client
            .query_opt(query, &[&called])
            .unwrap()
            .map(|row| row.get::<_, i32>(0))
    });
    release(&database, &["--pid", &backend.to_string(), "several"])
        .run()
        .assert_code(0)
        .assert_silent();
    second.wait().assert_code(143);
    assert!(first.is_running());
    assert_eq!(holders(&mut client, "several").len(), 2);

    let slots = ["--slots", "2"];
    let [one, other] = [(); 2].map(|()| hold(&database, &slots, "slots"));
    release(&database, &["--yes", "several", "slots", "nothing"])
        .run()
        .assert_code(0)
        .assert_silent();
    for job in [first, third, one, other] {
        job.wait().assert_code(143).assert_one_message();
    }
}

#[test]
fn a_dry_run_says_who_would_be_asked_and_whose_session_would_be_ended() {
    let database = database();
    let job = hold(&database, &[], "dry");
    let mut foreign = client(&database);
    foreign
        .batch_execute("SELECT pg_advisory_lock(42)")
        .unwrap();
    let shown = |words: &[&str]| release(&database, words).arg("--dry-run").run();
    shown(&["dry"])
        .assert_code(0)
        .assert_one_message()
        .assert_stderr_has("; would ask it to stop its command\n");
    for words in [&["--force", "dry"][..], &["--raw", "42"]] {
        shown(words)
            .assert_code(0)
            .assert_one_message()
            .assert_stderr_has("; would end this session\n");
    }
    job.let_go().assert_code(0).assert_stderr("");
}

#[test]
fn a_stopped_pglock_does_not_answer_and_is_not_asked_any_more_when_it_goes_on() {
    let database = database();
    let mut job = hold(&database, &[], "stopped");
    job.signal(Signal::SIGSTOP);
    let mut watch = client(&database);
    let asking = release(&database, &["--timeout", "1s", "stopped"]).spawn();
    until("the request", || requests(&mut watch) == 1);
    let listed = pglock(&database).args(["list", "--json"]).run();
    let listed: serde_json::Value = serde_json::from_str(&listed.stdout).unwrap();
    assert_eq!(listed.as_array().unwrap().len(), 1, "{listed}");
    asking
        .wait()
        .assert_code(75)
        .assert_stdout("")
        .assert_one_message()
        .assert_stderr_has("stopped is held by postgres")
        .assert_stderr_has("; --force ends its session\n");
    assert_eq!(requests(&mut watch), 0);
    job.signal(Signal::SIGCONT);
    await_heartbeats(&mut watch, "stopped", 2);
    job.let_go().assert_code(0).assert_stderr("");
}

#[test]
fn a_guardian_does_not_answer() {
    let database = database();
    let mut job = hold(&database, &[], "guarded");
    let guardian = until("the guardian", || child_named(job.pid(), "lock-guardian"));
    let stdin = job.take_stdin();
    job.signal(Signal::SIGKILL);
    job.wait().assert_signal(9);
    release(&database, &["--timeout", "700ms", "guarded"])
        .run()
        .assert_code(75)
        .assert_one_message()
        .assert_stderr_has("; --force ends its session\n");
    drop(stdin);
    until("the end of command and guardian", || {
        process_state(guardian).is_none()
    });
}

/// Somebody else has the lock before the one who asked for it looks again.
#[test]
fn whoever_gets_the_lock_next_was_not_asked() {
    let site = Site::new(PoolMode::Transaction, 2, &[]);
    let mut watch = site.server_client();
    let hold = |pglock: Pglock| {
        pglock
            .args(["--scope", "transaction", "--lease", "3s"])
            .hold("next")
    };
    let first = hold(site.pooled());
    let mut backends = holders(&mut watch, "next");
    let mut asking = site.direct().args(["release", "next"]).spawn();
    until("the request", || requests(&mut watch) == 1);
    asking.signal(Signal::SIGSTOP);
    first.wait().assert_code(143);
    // On the same backend, which is the pool's first.
    let next = hold(site.pooled());
    backends.extend(holders(&mut watch, "next"));
    assert_eq!(backends[0], backends[1]);
    await_heartbeats(&mut watch, "next", 3);
    asking.signal(Signal::SIGCONT);
    asking.wait().assert_code(0).assert_silent();
    next.let_go().assert_code(0).assert_stderr("");
    drop(watch);
    site.assert_untouched();
}

#[test]
fn it_works_through_a_transaction_pooler_on_either_side() {
    let site = Site::new(PoolMode::Transaction, 5, &[]);
    let (pooled, direct) = (|| site.pooled(), || site.direct());
    let ways: [&dyn Fn() -> Pglock; 2] = [&pooled, &direct];
    for holder in ways {
        for requester in ways {
            let options = ["--scope", "transaction", "--lease", "3s"];
            let job = holder().args(options).hold("pooled");
            requester()
                .args(["release", "pooled"])
                .run()
                .assert_code(0)
                .assert_silent();
            job.wait().assert_code(143).assert_one_message();
        }
    }
    site.assert_untouched();
}

#[test]
fn a_signal_withdraws_the_request_and_neither_end_leaves_a_line_in_the_log() {
    let server = Server::start();
    let pglock = || Pglock::new(&server).through(&["setsid"]);
    let mut watch = server.client();
    let mut job = pglock().args(["--lease", "3s"]).hold("log-asked");
    job.signal(Signal::SIGSTOP);
    let mut asking = pglock().args(["release", "log-asked"]).spawn();
    until("the request", || requests(&mut watch) == 1);
    asking.signal(Signal::SIGTERM);
    asking.wait().assert_code(143).assert_silent();
    until("the end of the request", || requests(&mut watch) == 0);
    job.signal(Signal::SIGCONT);
    await_heartbeats(&mut watch, "log-asked", 2);
    pglock()
        .args(["release", "log-asked"])
        .run()
        .assert_code(0)
        .assert_silent();
    job.wait().assert_code(143).assert_one_message();

    drop(watch);
    server.stop(Shutdown::Smart);
    let log = server.log();
    assert!(!log.contains("] pglock"), "{log}");
    assert_eq!(server.log_lines_at_or_above_warning(), [""; 0]);
}

#[test]
fn a_server_without_room_for_another_lock_still_proves_those_that_are_held() {
    let server = Server::with(&["max_connections = 20", "max_locks_per_transaction = 10"]);
    let holder = |options: &[&str], name: &str| {
        let pglock = Pglock::new(&server)
            .through(&["setsid"])
            .args(["--lease", "3s"]);
        pglock.args(options).hold(name)
    };
    let session = holder(&[], "crowded");
    let transaction = holder(&["--scope", "transaction"], "crowded-too");
    let mut watch = server.client();
    // What is in use must not need more room.
    await_heartbeats(&mut watch, "crowded", 1);
    let mut hoarder = server.client();
    let hoard = "SELECT pg_advisory_lock(7, n) FROM generate_series(1, 100000) n";
    let full = hoarder.batch_execute(hoard).unwrap_err();
    assert_eq!(full.code().map(SqlState::code), Some("53200"));
    let failed = |name: &str| {
        let called = format!("] pglock: {name} (");
        let log = server.log();
        let errors = log
            .lines()
            .filter(|line| line.contains(" ERROR:  out of shared memory"));
        errors.filter(|line| line.contains(&called)).count()
    };
    until("heartbeats that found no room", || {
        failed("crowded") >= 4 && failed("crowded-too") >= 4
    });
    hoarder
        .batch_execute("SELECT pg_advisory_unlock_all()")
        .unwrap();
    for job in [session, transaction] {
        job.let_go().assert_code(0).assert_stderr("");
    }
}

/// The job ends at any moment of the call, and another session gets the lock, or another pglock: nobody asked those.
#[test]
fn whoever_takes_the_lock_meanwhile_is_never_stopped() {
    const RACES: u32 = 200;
    let database = database();
    let mut canary = client(&database);
    canary.batch_execute("SELECT pg_advisory_lock(43)").unwrap();
    let canary_job = pglock(&database).hold("canary");
    let (mut freed, mut nothing, mut stopped) = (0, 0, 0);
    for race in 0..RACES {
        let mut job = hold(&database, &[], "race");
        let backend = holders(&mut canary, "race")[0].to_string();
        let next = Next::start(&database, race % 2 == 0);
        let stdin = job.take_stdin();
        let mut timer = client(&database);
        // Most end before their next heartbeat.
        let longest = if race % 10 == 0 { 1.0 } else { 0.06 };
        let lets_go = thread::spawn(move || {
            let late = format!("SELECT pg_sleep({})", fastrand::f64() * longest);
            timer.batch_execute(&late).unwrap();
            drop(stdin);
        });
        let finished = release(&database, &["--pid", &backend, "race"]).run();
        finished.assert_silent();
        match finished.code {
            Some(0) => freed += 1,
            Some(1) => nothing += 1,
            _ => drop(finished.assert(false, "exit code 0 or 1")),
        }
        lets_go.join().expect("the timer runs");
        let ended = job.wait();
        match ended.code {
            Some(0) => {}
            Some(143) => stopped += 1,
            _ => drop(ended.assert(false, "an end of its own, or on request")),
        }
        next.assert_lives();
    }
    assert_eq!(freed + nothing, RACES);
    assert!(stopped > 0, "{freed} freed, {nothing} times nothing");
    canary.batch_execute("SELECT 1").unwrap();
    canary_job.let_go().assert_code(0).assert_stderr("");
    assert_free(Server::shared(), "race");
}

/// Who waits for the lock of a race.
enum Next {
    Session(Waiter),
    Job(Running),
}

impl Next {
    #[track_caller]
    fn start(database: &str, is_session: bool) -> Self {
        let key = pglock(database).args(["key", "race"]).run();
        if is_session {
            let call = format!("pg_advisory_lock({})", key.stdout.trim());
            return Self::Session(Waiter::start(Server::shared(), database, &call));
        }
        let mut job = pglock(database)
            .args(["run", "--lease", "3s", "race", "cat"])
            .spawn();
        job.write(b"mine\n");
        Self::Job(job)
    }

    #[track_caller]
    fn assert_lives(self) {
        match self {
            Self::Session(waiter) => waiter.granted().batch_execute("SELECT 1").unwrap(),
            Self::Job(mut job) => {
                job.wait_line("mine");
                job.let_go().assert_code(0).assert_stderr("");
            }
        }
    }
}

/// How many requests stand, where nobody waits for a lock in a queue.
#[track_caller]
fn requests(client: &mut Client) -> usize {
    let requests = "SELECT count(*) FROM pg_locks l JOIN pg_stat_activity a USING (pid) \
         WHERE l.locktype = 'advisory' AND l.objsubid = 2 AND l.mode = 'ShareLock' \
             AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database()) \
             AND a.application_name LIKE 'pglock release (%'";
    let count: i64 = client.query_one(requests, &[]).unwrap().get(0);
    count.try_into().unwrap()
}

/// A file that jobs write to, in a directory that goes with the first value.
fn journal() -> (Watchdog, PathBuf) {
    let scratch = Watchdog::start();
    let journal = scratch.directory().join("journal");
    fs::write(&journal, "").unwrap();
    (scratch, journal)
}

fn database() -> String {
    Server::shared().database()
}

fn pglock(database: &str) -> Pglock {
    Pglock::new(Server::shared())
        .through(&["setsid"])
        .env("PGDATABASE", database)
}

fn release(database: &str, words: &[&str]) -> Pglock {
    Pglock::new(Server::shared())
        .env("PGDATABASE", database)
        .arg("release")
        .args(words)
}

/// A job with a heartbeat every half second.
#[track_caller]
fn hold(database: &str, options: &[&str], name: &str) -> Running {
    pglock(database)
        .args(["--lease", "3s"])
        .args(options)
        .hold(name)
}

#[track_caller]
fn client(database: &str) -> Client {
    Server::shared().client_as(database, "postgres")
}

#[test]
fn whom_nobody_can_ask_was_said_to_have_been_asked() {
    let server = Server::start();
    let role = server.role("");
    let holder = Pglock::new(&server).hold("unasked");
    let mut stranger = server.client_as("postgres", &role);
    let called = "SELECT application_name, pid FROM pg_stat_activity WHERE application_name LIKE 'pglock: unasked %'";
    let row = stranger.query_one(called, &[]).unwrap();
    let (name, pid): (String, i32) = (row.get(0), row.get(1));
    // As the README and the source tell it: anybody can take that lock.
    let digest = format!(
        "SELECT pg_advisory_lock(('x' || left(encode(sha256(convert_to('pglock release {name}', 'UTF8')), 'hex'), 8))::bit(32)::int, {pid})"
    );
    stranger.batch_execute(&digest).unwrap();
    let asked = Pglock::new(&server).args(["release", "unasked"]).run();
    asked
        .assert_code(75)
        .assert_one_message()
        .assert_stderr_has(
            "; it cannot be asked, as somebody holds the lock that asks; --force ends its session",
        );
    drop(stranger);
    holder.let_go().assert_code(0).assert_stderr("");
}
