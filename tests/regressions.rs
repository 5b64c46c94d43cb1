//! Faults that were found in use and mended: each test is named after what went wrong.

use std::time::Duration;

use postgres::Client;

use crate::support::{Finished, Pglock, PoolMode, Pooler, Server, backend_pid, until};

#[test]
fn a_duration_beyond_all_clocks_was_a_crash() {
    for duration in ["9999999999999999999", "11years", "9999999999999999999s"] {
        for words in [
            &["run", "-w", duration, "x", "echo", "ran"][..],
            &["run", "--timeout", duration, "x", "echo", "ran"],
            &["run", "--grace", duration, "x", "echo", "ran"],
            &["try", "--grace", duration, "x", "echo", "ran"],
            &["try", "--lease", duration, "x", "echo", "ran"],
            &["release", "--timeout", duration, "x"],
        ] {
            let finished = Pglock::new(Server::shared()).args(words).run();
            finished
                .assert_code(125)
                .assert_stdout("")
                .assert_stderr_has(&format!("'{duration}' is no duration"))
                .assert_one_message();
        }
    }
    // The longest that can be asked for.
    let words = ["run", "-w", "10years", "--lease", "24h", "--grace", "12h"];
    Pglock::new(Server::shared())
        .args(words)
        .args(["longest-duration", "echo", "ran"])
        .run()
        .assert_code(0)
        .assert_stdout("ran\n")
        .assert_stderr("");
}

#[test]
fn a_pooler_that_had_no_backend_for_a_moment_was_taken_for_one_of_statements() {
    let server = Server::start();
    let settings = ["query_wait_timeout = 1"];
    let pooler = Pooler::start(&server, PoolMode::Transaction, 1, &settings);
    let mut other = pooler.client("postgres");
    other.batch_execute("BEGIN").unwrap();
    let words = ["try", "--scope", "transaction", "hurried", "echo", "ran"];
    let hurried = Pglock::new(&server).envs(pooler.env()).args(words).spawn();
    until("the refusal", || {
        pooler.log().contains("query_wait_timeout")
    });
    other.batch_execute("COMMIT").unwrap();
    hurried
        .wait()
        .assert_code(121)
        .assert_stdout("")
        .assert_stderr_has("query_wait_timeout")
        .assert_one_message();
}

#[test]
fn a_command_under_a_raw_key_was_told_a_namespace() {
    let database = Server::shared().database();
    let tell = "echo ${PGLOCK_NAMESPACE-none} $PGLOCK_NAME $PGLOCK_KEY";
    for words in [["run", "--raw", "42"], ["try", "--raw", "42"]] {
        pglock(&database)
            .env("PGLOCK_NAMESPACE", "ns")
            .args(words)
            .args(["sh", "-c", tell])
            .run()
            .assert_code(0)
            .assert_stdout("none 42 42\n")
            .assert_stderr("");
    }
}

#[test]
fn a_holder_in_both_modes_was_shown_and_asked_for_twice() {
    let database = Server::shared().database();
    let mut watch = client(&database);
    let hold = || {
        let mut holder = client(&database);
        let both = "SELECT pg_advisory_lock(42), pg_advisory_lock_shared(42)";
        holder.batch_execute(both).unwrap();
        holder
    };
    let release = |words: &[&str]| {
        let pglock = pglock(&database).args(["release", "--raw", "42"]);
        pglock.args(words)
    };

    let mut holder = hold();
    let described = format!("(backend {})", backend_pid(&mut holder));
    release(&["--dry-run"])
        .run()
        .assert_code(0)
        .assert_stdout("")
        .assert_stderr_has(&described)
        .assert_one_message();
    release(&[])
        .run()
        .assert_code(75)
        .assert_stdout("")
        .assert_stderr_has(&described)
        .assert_one_message();
    let ask = |answer: &[u8]| {
        let mut terminal = release(&[]).on_terminal();
        terminal.wait_for("[y/N] ");
        terminal.write(answer);
        terminal.wait()
    };
    let refused = ask(b"n\n");
    refused.assert_code(75).assert_stdout_has(&described);
    assert_asked_once(&refused);
    assert!(holder.is_valid(Duration::from_secs(20)).is_ok());
    let agreed = ask(b"y\n");
    agreed.assert_code(0).assert_stdout_has(&described);
    assert_asked_once(&agreed);
    assert!(holder.batch_execute("SELECT 1").is_err());

    let mut holder = hold();
    release(&["--force"]).run().assert_code(0).assert_silent();
    assert!(holder.batch_execute("SELECT 1").is_err());
    let left = "SELECT FROM pg_locks WHERE locktype = 'advisory'
        AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";
    assert!(watch.query(left, &[]).unwrap().is_empty());
}

/// The setting came with PostgreSQL 14.
#[test]
fn an_idle_session_timeout_ended_release_while_it_asked() {
    let server = Server::shared();
    if server.version_num() < 140_000 {
        return;
    }
    let database = server.database();
    let role = server.role("SUPERUSER");
    let set = format!("ALTER ROLE {role} SET idle_session_timeout = '300ms'");
    server.execute(&set);
    let mut holder = client(&database);
    holder.batch_execute("SELECT pg_advisory_lock(42)").unwrap();

    let mut terminal = pglock(&database)
        .env("PGUSER", &role)
        .args(["release", "--raw", "42"])
        .on_terminal();
    terminal.wait_for("[y/N] ");
    let mut watch = client(&database);
    let asked = clock(&mut watch);
    until("three times the timeout", || {
        clock(&mut watch) - asked > 1.0
    });
    terminal.write(b"y\n");
    let finished = terminal.wait();
    finished.assert_code(0);
    assert_asked_once(&finished);
    assert!(holder.batch_execute("SELECT 1").is_err());
}

#[test]
fn the_key_of_a_lock_with_a_long_name_was_broken_over_lines() {
    for name in ["long name ".repeat(20), "x".repeat(150), "漢".repeat(60)] {
        for namespace in [&[][..], &["-N", "a namespace that is long as well"]] {
            let database = Server::shared().database();
            let key = pglock(&database).arg("key").args(namespace).arg(&name);
            let key = key.run();
            key.assert_code(0).assert_stderr("");
            let holder = pglock(&database).args(namespace).hold(&name);
            let listed = pglock(&database).arg("list").on_terminal().wait();
            let unbroken = listed.stdout.lines().any(|line| {
                line.split_whitespace()
                    .any(|word| word == key.stdout.trim_end())
            });
            listed
                .assert_code(0)
                .assert(unbroken, &format!("{} on one line", key.stdout.trim_end()));
            holder.let_go().assert_code(0).assert_stderr("");
        }
    }
}

/// Asserts that a terminal showed one question and nothing else but the answer.
#[track_caller]
fn assert_asked_once(finished: &Finished) {
    let times = finished.stdout.matches("[y/N]").count();
    finished.assert(times == 1, "one question");
}

/// Seconds, on the server's clock.
fn clock(client: &mut Client) -> f64 {
    let now = "SELECT extract(epoch FROM clock_timestamp())::float8";
    client.query_one(now, &[]).unwrap().get(0)
}

fn pglock(database: &str) -> Pglock {
    Pglock::new(Server::shared()).env("PGDATABASE", database)
}

#[track_caller]
fn client(database: &str) -> Client {
    Server::shared().client_as(database, "postgres")
}
