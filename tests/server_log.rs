//! What pglock's sessions leave in the server's log, and what the defaults of a role or database can do to them: nothing.

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use postgres::Client;

use crate::support::{Finished, Pglock, Proxy, Server, Shutdown, stop_in_a_try, until, waiters};

/// What can end a session or a statement, and the version that brought it. They are set to 500 ms: shorter than the
/// hold and the wait of the test, long enough for the first message of a session.
const TIMEOUTS: [(&str, u32); 5] = [
    ("statement_timeout", 0),
    ("idle_session_timeout", 140_000),
    ("lock_timeout", 0),
    ("idle_in_transaction_session_timeout", 0),
    ("transaction_timeout", 170_000),
];

/// Functions that grant every lock and operators that fail, found before the server's own.
const SHADOWS: &str = "
    CREATE SCHEMA evil;
    GRANT USAGE ON SCHEMA evil TO PUBLIC;
    CREATE FUNCTION evil.pg_try_advisory_lock(bigint) RETURNS boolean LANGUAGE sql AS 'SELECT true';
    CREATE FUNCTION evil.pg_advisory_unlock(bigint) RETURNS boolean LANGUAGE sql AS 'SELECT true';
    CREATE FUNCTION evil.refuse(int4, int4) RETURNS boolean LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION ''evil''; END';
    CREATE FUNCTION evil.refuse(oid, oid) RETURNS boolean LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION ''evil''; END';
    CREATE FUNCTION evil.refuse(name, name) RETURNS boolean LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION ''evil''; END';
    CREATE FUNCTION evil.refuse(text, text) RETURNS boolean LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION ''evil''; END';
    CREATE OPERATOR evil.= (LEFTARG = int4, RIGHTARG = int4, FUNCTION = evil.refuse);
    CREATE OPERATOR evil.= (LEFTARG = oid, RIGHTARG = oid, FUNCTION = evil.refuse);
    CREATE OPERATOR evil.= (LEFTARG = name, RIGHTARG = name, FUNCTION = evil.refuse);
    CREATE OPERATOR evil.= (LEFTARG = text, RIGHTARG = text, FUNCTION = evil.refuse);
    ALTER ROLE victim IN DATABASE hostile SET search_path = evil, pg_catalog";

#[test]
fn ordinary_use_leaves_no_line_in_the_log() {
    let server = Server::start();
    let run = |words: &[&str]| Pglock::new(&server).args(words).run();
    run(&["run", "log", "true"]).assert_code(0).assert_silent();
    run(&["run", "-s", "-N", "a", "log", "-c", "exit 3"])
        .assert_code(3)
        .assert_silent();
    run(&["run", "log", "no-such-program"])
        .assert_code(127)
        .assert_stdout("")
        .assert_stderr("pglock: no-such-program: command not found\n");

    let holder = Pglock::new(&server).hold("log");
    let waiter = Pglock::new(&server)
        .args(["run", "log", "echo", "ran"])
        .spawn();
    let mut client = server.client();
    until("the waiter", || waiters(&mut client, "log").len() == 1);
    run(&["list", "-q", "log"]).assert_code(0).assert_silent();
    run(&["list", "--json", "--all-databases"])
        .assert_code(0)
        .assert_stdout_has("\"name\":")
        .assert_stderr("");
    run(&["release", "--dry-run", "log"])
        .assert_code(0)
        .assert_stdout("")
        .assert_stderr_has("pglock: log is held by postgres on ")
        .assert_one_message();
    for words in [&["try", "log"][..], &["run", "-w", "1s", "-q", "log"]] {
        run(&[words, &["echo", "ran"]].concat())
            .assert_code(75)
            .assert_stdout("");
    }
    holder.let_go().assert_code(0).assert_stderr("");
    waiter
        .wait()
        .assert_code(0)
        .assert_stdout("ran\n")
        .assert_stderr("");
    run(&["list"]).assert_code(0).assert_stderr("");
    run(&["key", "log"]).assert_code(0).assert_stderr("");

    drop(client);
    assert_eq!(final_lines(&server), [""; 0]);
}

#[test]
fn a_wait_interrupted_in_the_middle_of_a_try_is_no_error_to_the_server() {
    let server = Server::start();
    let holder = Pglock::new(&server).hold("log-signal");
    let mut client = server.client();
    for _ in 0..5 {
        let proxy = Proxy::to(&server);
        let mut waiter = Pglock::new(&server)
            .envs(proxy.env())
            .env("PGSSLMODE", "disable")
            .through(&["setsid"])
            .args(["run", "log-signal", "echo", "ran"])
            .spawn();
        let backend = until("the waiter", || {
            waiters(&mut client, "log-signal").first().copied()
        });
        stop_in_a_try(backend, &proxy);
        waiter.signal(Signal::SIGTERM);
        kill(Pid::from_raw(backend), Signal::SIGCONT).unwrap();
        waiter.wait().assert_code(143).assert_silent();
        until("the end of its session", || {
            waiters(&mut client, "log-signal").is_empty()
        });
    }
    holder.let_go().assert_code(0).assert_stderr("");

    drop(client);
    server.stop(Shutdown::Smart);
    assert_eq!(server.log_lines_at_or_above_warning(), [""; 0]);
}

#[test]
fn a_forced_release_leaves_nothing_but_the_end_of_the_holder() {
    let server = Server::start();
    let holder = Pglock::new(&server).hold("log-force");
    Pglock::new(&server)
        .args(["release", "--force", "log-force"])
        .run()
        .assert_code(0)
        .assert_stderr("");
    holder
        .wait()
        .assert_code(123)
        .assert_stdout("ready\n")
        .assert_stderr_has("pglock: log-force was lost: ")
        .assert_one_message();

    let lines = final_lines(&server);
    let end = "FATAL:  terminating connection due to administrator command";
    assert!(lines.len() == 1 && lines[0].ends_with(end), "{lines:?}");
}

#[test]
fn hostile_defaults_of_role_and_database_hurt_neither_a_hold_nor_a_wait() {
    let (server, client) = hostile_server();
    let mut watch = server.client();
    let pglock = || {
        Pglock::new(&server)
            .env("PGUSER", "victim")
            .env("PGDATABASE", "hostile")
    };
    let mut holder = pglock().hold("hostile");
    let mut waiter = pglock().args(["run", "hostile", "echo", "ran"]).spawn();
    until("the waiter", || waiters(&mut watch, "hostile").len() == 1);
    let begun = clock(&mut watch);
    assert_busy(&pglock().args(["try", "hostile", "echo", "ran"]).run());
    // Three times the timeouts, or PGLOCK_TEST_HOLD seconds.
    let hold = std::env::var("PGLOCK_TEST_HOLD").map_or(1.5, |seconds| seconds.parse().unwrap());
    until("the time to pass", || clock(&mut watch) - begun > hold);
    assert!(holder.is_running() && waiter.is_running());
    assert_busy(&pglock().args(["try", "hostile", "echo", "ran"]).run());
    pglock()
        .args(["list", "-q", "hostile"])
        .run()
        .assert_code(0)
        .assert_silent();
    holder.let_go().assert_code(0).assert_stderr("");
    waiter
        .wait()
        .assert_code(0)
        .assert_stdout("ran\n")
        .assert_stderr("");
    drop((client, watch));
    assert_eq!(final_lines(&server), [""; 0]);
}

/// Without this the test above could pass because nothing is hostile.
#[test]
fn hostile_defaults_do_hurt_a_session_without_a_shield() {
    let (server, mut client) = hostile_server();
    let mut victim = server.client_as("hostile", "victim");
    let mut is = |query: &str| {
        victim
            .query_one(query, &[])
            .map(|row| row.get::<_, bool>(0))
    };
    client.batch_execute("SELECT pg_advisory_lock(42)").unwrap();
    assert!(is("SELECT pg_try_advisory_lock(42::bigint)").unwrap());
    assert!(!is("SELECT pg_catalog.pg_try_advisory_lock(42::bigint)").unwrap());
    let error = is("SELECT 1 = 1").unwrap_err();
    assert_eq!(error.as_db_error().unwrap().message(), "evil");
    for setting in timeouts(&server) {
        let row = victim.query_one(&format!("SHOW {setting}"), &[]).unwrap();
        assert_eq!(row.get::<_, &str>(0), "500ms", "{setting}");
    }
}

/// A server where the role `victim` finds hostile defaults in the database `hostile`, and a session without them there.
fn hostile_server() -> (Server, Client) {
    let server = Server::start();
    server.execute("CREATE ROLE victim LOGIN");
    server.execute("CREATE DATABASE hostile");
    let mut client = server.client_as("hostile", "postgres");
    client.batch_execute(SHADOWS).unwrap();
    client
        .batch_execute("ALTER ROLE victim SET quote_all_identifiers = on")
        .unwrap();
    for (setting, whose) in
        timeouts(&server).zip(["ROLE victim", "DATABASE hostile"].iter().cycle())
    {
        let set = format!("ALTER {whose} SET {setting} = '500ms'");
        client.batch_execute(&set).unwrap();
    }
    (server, client)
}

/// The settings that can end a session or a statement.
fn timeouts(server: &Server) -> impl Iterator<Item = &'static str> {
    let version = server.version_num();
    let known = move |(_, since): &(&str, u32)| version >= *since;
    TIMEOUTS
        .into_iter()
        .filter(known)
        .map(|(setting, _)| setting)
}

#[track_caller]
fn assert_busy(finished: &Finished) {
    finished
        .assert_code(75)
        .assert_stdout("")
        .assert_stderr_has("pglock: hostile is held by victim on ")
        .assert_one_message();
}

/// Seconds, on the server's clock.
fn clock(client: &mut Client) -> f64 {
    let now = "SELECT extract(epoch FROM clock_timestamp())::float8";
    client.query_one(now, &[]).unwrap().get(0)
}

/// Stops the server; everything that its log has of sessions of pglock, and every warning or error of anybody else's.
#[track_caller]
fn final_lines(server: &Server) -> Vec<String> {
    // It waits for all sessions, so the log is complete; the test's own must have been dropped.
    server.stop(Shutdown::Smart);
    let (log, grave) = (server.log(), server.log_lines_at_or_above_warning());
    let counts = |line: &&str| line.contains("] pglock") || grave.iter().any(|each| each == line);
    log.lines().filter(counts).map(str::to_owned).collect()
}
