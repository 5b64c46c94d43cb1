//! Who may hold a lock together with whom, and what a waiter costs the others.

use std::collections::BTreeSet;
use std::fs;

use postgres::Client;

use crate::support::{
    Finished, Pglock, Running, Server, Watchdog, backend_pid, holders, until, waiters,
};

/// As many as a popular cron table starts in the same second.
const CROWD: usize = 20;

#[test]
fn a_crowd_of_runs_never_overlaps_and_everyone_has_a_turn() {
    let scratch = Watchdog::start();
    let journal = scratch.directory().join("journal");
    // Two processes between the lines, as time for another to come in between.
    let script = "echo start $$ >>\"$0\"; sh -c :; sh -c :; echo end $$ >>\"$0\"";
    let crowd: Vec<Running> = (0..CROWD)
        .map(|_| {
            pglock()
                .args(["run", "crowd-run", "sh", "-c", script])
                .arg(&journal)
                .spawn()
        })
        .collect();
    for running in crowd {
        running.wait().assert_code(0).assert_silent();
    }

    let journal = fs::read_to_string(journal).unwrap();
    let lines: Vec<&str> = journal.lines().collect();
    let mut seen = BTreeSet::new();
    for turn in lines.chunks(2) {
        let pid = turn[0].strip_prefix("start ").expect(&journal);
        assert_eq!(turn.get(1), Some(&&*format!("end {pid}")), "{journal}");
        seen.insert(pid);
    }
    assert_eq!(seen.len(), CROWD, "{journal}");
}

#[test]
fn of_a_crowd_of_tries_exactly_one_runs() {
    let mut crowd: Vec<Running> = (0..CROWD)
        .map(|_| {
            let job = ["crowd-try", "sh", "-c", "echo ran; exec cat >/dev/null"];
            pglock().arg("try").args(job).spawn()
        })
        .collect();
    until("the end of all but one", || {
        crowd
            .iter_mut()
            .filter_map(|each| each.is_running().then_some(()))
            .count()
            <= 1
    });
    let (winners, losers): (Vec<_>, Vec<_>) = crowd
        .into_iter()
        .map(|mut each| (each.is_running(), each))
        .partition(|(is_running, _)| *is_running);
    assert_eq!((winners.len(), losers.len()), (1, CROWD - 1));
    for (_, loser) in losers {
        loser
            .wait()
            .assert_code(75)
            .assert_stdout("")
            .assert_stderr_has("pglock: crowd-try is held by postgres on ")
            .assert_one_message();
    }
    for (_, winner) in winners {
        winner
            .let_go()
            .assert_code(0)
            .assert_stdout("ran\n")
            .assert_stderr("");
    }
}

#[test]
fn shared_holders_hold_together_and_keep_an_exclusive_one_out() {
    let shared: Vec<Running> = (0..3)
        .map(|_| pglock().arg("-s").hold("shared-three"))
        .collect();
    let mut client = Server::shared().client();
    assert_eq!(holders(&mut client, "shared-three").len(), 3);
    assert_busy(&["shared-three"]);
    assert_free(&["-s", "shared-three"]);
    for each in shared {
        each.let_go().assert_code(0).assert_stderr("");
    }
    assert_free(&["shared-three"]);
}

#[test]
fn an_exclusive_holder_keeps_shared_ones_out() {
    let holder = pglock().hold("shared-none");
    assert_busy(&["-s", "shared-none"]);
    holder.let_go().assert_code(0).assert_stderr("");
    assert_free(&["-s", "shared-none"]);
}

#[test]
fn a_waiter_gets_the_lock_when_the_holder_lets_go_and_not_before() {
    let mut client = Server::shared().client();
    let holder = pglock().hold("handed-over");
    let waiter = pglock().args(["run", "handed-over", "echo", "ran"]).spawn();
    until("the waiter", || {
        waiters(&mut client, "handed-over").len() == 1
    });
    assert_eq!(waiter.stdout_so_far(), "");
    holder.let_go().assert_code(0).assert_stderr("");
    waiter
        .wait()
        .assert_code(0)
        .assert_stdout("ran\n")
        .assert_stderr("");
}

#[test]
fn names_in_namespaces_are_other_locks() {
    let holder = pglock().hold("one-name");
    assert_free(&["-N", "a", "one-name"]);
    let in_namespace = pglock().args(["-N", "a"]).hold("one-name");
    assert_busy(&["one-name"]);
    assert_busy(&["-N", "a", "one-name"]);
    assert_free(&["-N", "b", "one-name"]);
    assert_free(&["-N", "one-name", "a"]);
    for each in [holder, in_namespace] {
        each.let_go().assert_code(0).assert_stderr("");
    }
}

#[test]
fn a_raw_number_and_the_pair_of_its_halves_are_different_locks() {
    let database = Server::shared().database();
    let there = || pglock().env("PGDATABASE", &database);
    let holder = there().arg("--raw").hold("42");
    conclude_free(&there().args(["try", "--raw", "0,42", "echo", "ran"]).run());
    conclude_busy(there().args(["try", "--raw", "42", "echo", "ran"]).run());
    holder.let_go().assert_code(0).assert_stderr("");
    let holder = there().arg("--raw").hold("0,42");
    conclude_free(&there().args(["try", "--raw", "42", "echo", "ran"]).run());
    conclude_busy(there().args(["try", "--raw", "0,42", "echo", "ran"]).run());
    holder.let_go().assert_code(0).assert_stderr("");
}

#[test]
fn a_name_in_another_database_is_another_lock() {
    let holder = pglock().hold("per-database");
    let database = Server::shared().database();
    let other = pglock().env("PGDATABASE", &database);
    conclude_free(&other.args(["try", "per-database", "echo", "ran"]).run());
    assert_busy(&["per-database"]);
    holder.let_go().assert_code(0).assert_stderr("");
}

#[test]
fn a_lock_that_another_program_took_in_sql_keeps_pglock_out() {
    // The formula by which any program can take part.
    let key = "('x'||left(encode(sha256(convert_to('foreign','UTF8')),'hex'),16))::bit(64)::bigint";
    let mut client = Server::shared().client();
    client
        .batch_execute(&format!("SELECT pg_advisory_lock({key})"))
        .unwrap();
    assert_busy(&["foreign"]).assert_stderr_has(&format!("(backend {})", backend_pid(&mut client)));
    client
        .batch_execute(&format!("SELECT pg_advisory_unlock({key})"))
        .unwrap();
    assert_free(&["foreign"]);
}

#[test]
fn a_lock_that_pglock_holds_keeps_other_programs_out() {
    let key =
        "('x'||left(encode(sha256(convert_to('to-foreign','UTF8')),'hex'),16))::bit(64)::bigint";
    let try_lock = format!("SELECT pg_try_advisory_xact_lock({key})");
    let mut client = Server::shared().client();
    let mut foreign_gets_it = || client.query_one(&try_lock, &[]).unwrap().get::<_, bool>(0);
    let holder = pglock().hold("to-foreign");
    assert!(!foreign_gets_it());
    holder.let_go().assert_code(0).assert_stderr("");
    assert!(foreign_gets_it());
}

#[test]
fn a_waiter_is_idle_and_holds_no_snapshot() {
    let mut client = Server::shared().client();
    let holder = pglock().hold("no-snapshot");
    let waiter = pglock().args(["run", "no-snapshot", "true"]).spawn();
    let backend = until("the waiter", || {
        waiters(&mut client, "no-snapshot").first().copied()
    });

    // From the first try that was looked at to the third one after it, the pauses between them included.
    let (mut idle, mut trying, mut tries) = (0, 0, BTreeSet::new());
    until("three more tries", || {
        let sample = Sample::of(&mut client, backend);
        assert_ne!(sample.wait_event_type.as_deref(), Some("Lock"));
        if sample.state == "idle" {
            assert!(!sample.has_snapshot);
            idle += 1;
        } else {
            assert_eq!(sample.state, "active", "never in a transaction");
            trying += 1;
        }
        tries.insert(sample.query_start);
        tries.len() > 3 && idle >= 100
    });
    assert!(trying * 10 < idle, "{idle} times idle, {trying} times not");

    holder.let_go().assert_code(0).assert_stderr("");
    waiter.wait().assert_code(0).assert_silent();
}

/// One look at a backend.
struct Sample {
    state: String,
    has_snapshot: bool,
    wait_event_type: Option<String>,
    query_start: String,
}

impl Sample {
    fn of(client: &mut Client, backend: i32) -> Self {
        let query = "SELECT state, backend_xmin IS NOT NULL, wait_event_type, query_start::text \
            FROM pg_stat_activity WHERE pid = $1";
        let row = client.query_one(query, &[&backend]).unwrap();
        Self {
            state: row.get(0),
            has_snapshot: row.get(1),
            wait_event_type: row.get(2),
            query_start: row.get(3),
        }
    }
}

fn pglock() -> Pglock {
    Pglock::new(Server::shared())
}

#[track_caller]
fn assert_busy(lock: &[&str]) -> Finished {
    conclude_busy(try_to_run(lock))
}

#[track_caller]
fn assert_free(lock: &[&str]) {
    conclude_free(&try_to_run(lock));
}

#[track_caller]
fn try_to_run(lock: &[&str]) -> Finished {
    pglock().arg("try").args(lock).args(["echo", "ran"]).run()
}

#[track_caller]
fn conclude_busy(finished: Finished) -> Finished {
    finished
        .assert_code(75)
        .assert_stdout("")
        .assert_stderr_has(" is held by postgres ")
        .assert_one_message();
    finished
}

#[track_caller]
fn conclude_free(finished: &Finished) {
    finished
        .assert_code(0)
        .assert_stdout("ran\n")
        .assert_stderr("");
}
