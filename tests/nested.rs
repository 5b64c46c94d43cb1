//! A command that asks for what its own pglock holds.

use std::time::{Duration, Instant};

use crate::support::{
    Pglock, PoolMode, Running, Server, Site, assert_free, holders, tickets, until,
};

/// Tells the commands where pglock is.
const LAUNCHER: [&str; 3] = ["sh", "-c", r#"export PGLOCK="$0"; exec "$0" "$@""#];

/// Runs pglock under a pglock, which both get the words before the lock's name.
fn nested(pglock: Pglock, outer: &[&str], inner: &[&str]) -> Running {
    let outer = pglock.through(&LAUNCHER).args(outer);
    let script = r#"exec "$PGLOCK" "$@""#;
    outer.args(["sh", "-c", script, "sh"]).args(inner).spawn()
}

#[test]
fn a_lock_that_its_own_ancestor_holds_is_not_waited_for() {
    let server = Server::shared();
    let begun = Instant::now();
    for (outer, inner) in [
        (
            &["run", "nested"][..],
            &["run", "nested", "echo", "ran"][..],
        ),
        (
            &["run", "-s", "nested"],
            &["run", "-w", "50s", "nested", "echo", "ran"],
        ),
        (
            &["run", "--also", "inner", "nested"],
            &["run", "--also", "other", "inner", "echo", "ran"],
        ),
        (
            &["run", "between", "env", "pglock-is-here=1"],
            &["run", "between", "echo", "ran"],
        ),
    ] {
        nested(Pglock::new(server), outer, inner)
            .wait()
            .assert_code(75)
            .assert_stdout("")
            .assert_one_message()
            .assert_stderr_has(", and this command runs under that: it would wait for itself\n");
    }
    let took = begun.elapsed();
    assert!(took < Duration::from_secs(10), "{took:?}");
    assert_free(server, "nested");
}

#[test]
fn behind_a_pooler_too() {
    let site = Site::new(PoolMode::Transaction, 5, &[]);
    let words = ["run", "--scope", "transaction", "nested"];
    let mut inner = words.to_vec();
    inner.extend(["echo", "ran"]);
    nested(site.pooled(), &words, &inner)
        .wait()
        .assert_code(75)
        .assert_stderr_has("it would wait for itself");
}

#[test]
fn what_does_not_hinder_is_granted() {
    let server = Server::shared();
    for (outer, inner) in [
        (&["run", "outer"][..], &["run", "inner", "echo", "ran"][..]),
        (
            &["run", "-s", "both"],
            &["run", "-s", "both", "echo", "ran"],
        ),
        (
            &["run", "--slots", "2", "two"],
            &["run", "--slots", "2", "two", "echo", "ran"],
        ),
    ] {
        let granted = nested(Pglock::new(server), outer, inner).wait();
        granted
            .assert_code(0)
            .assert_stdout("ran\n")
            .assert_stderr("");
    }
}

#[test]
fn a_lock_that_somebody_else_holds_is_waited_for() {
    let server = Server::shared();
    let holder = Pglock::new(server).hold("of-another");
    let mut waiter = nested(
        Pglock::new(server),
        &["run", "-v", "around"],
        &["run", "-v", "of-another", "echo", "ran"],
    );
    waiter.wait_stderr("somebody else holds the lock: waiting, 0 ahead in line");
    holder.let_go().assert_code(0);
    waiter.wait().assert_code(0).assert_stdout("ran\n");
}

#[test]
fn slots_that_are_all_held_above_are_not_waited_for() {
    let words = ["run", "--slots", "2", "all-above"];
    let script =
        r#"exec "$PGLOCK" run --slots 2 all-above "$PGLOCK" run --slots 2 all-above echo ran"#;
    let outer = Pglock::new(Server::shared()).through(&LAUNCHER);
    let outer = outer.args(words).args(["sh", "-c", script]).run();
    outer
        .assert_code(75)
        .assert_stdout("")
        .assert_stderr_has("it would wait for itself");
}

#[test]
fn another_slot_than_the_one_that_is_held_above_is_waited_for() {
    let server = Server::shared();
    let stranger = Pglock::new(server).hold("slot-of-another");
    let outer = ["run", "--slots", "2", "slot-of-another"];
    let inner = ["run", "-v", "slot-of-another", "echo", "ran"];
    let mut waiter = nested(Pglock::new(server), &outer, &inner);
    waiter.wait_stderr(" ahead in line");
    stranger.let_go().assert_code(0);
    waiter.wait().assert_code(0).assert_stdout("ran\n");
}

#[test]
fn processes_of_another_namespace_are_known_too() {
    if !nix::unistd::geteuid().is_root() {
        return;
    }
    let script = r#"unshare --pid --fork --mount-proc "$PGLOCK" run far-above echo ran"#;
    let outer = Pglock::new(Server::shared()).through(&LAUNCHER);
    let outer = outer.args(["run", "far-above", "sh", "-c", script]).run();
    outer
        .assert_code(75)
        .assert_stderr_has("it would wait for itself");
}

#[test]
fn who_only_calls_itself_an_ancestor_is_waited_for() {
    let server = Server::start();
    let role = server.role("");
    let mut forger = server.client_as("postgres", &role);
    let host = nix::unistd::gethostname().unwrap();
    let key = String::from_utf8_lossy(
        &Pglock::without_server()
            .args(["key", "forged"])
            .run()
            .stdout_bytes,
    )
    .trim()
    .to_owned();
    let name = format!("pglock: forged ({}:1)", host.to_string_lossy());
    forger
        .batch_execute(&format!(
            "SET application_name = '{name}'; SELECT pg_advisory_lock({key})"
        ))
        .unwrap();
    let inner = ["run", "-w", "300ms", "forged", "echo", "ran"];
    let finished = nested(Pglock::new(&server), &["run", "over"], &inner).wait();
    finished.assert_code(75).assert(
        !finished.stderr.contains("wait for itself"),
        "an ordinary wait",
    );
}

/// A reader within a reader, and a writer that waits for the outer one.
#[test]
fn a_reader_does_not_wait_for_a_writer_that_waits_for_its_own_reader() {
    let server = Server::start();
    let script = r#"read -r line; exec "$PGLOCK" run -s around echo ran"#;
    let outer = Pglock::new(&server).through(&LAUNCHER);
    let words = ["run", "-s", "around", "sh", "-c", script];
    let mut outer = outer.args(words).spawn();
    until("the outer reader", || {
        !holders(&mut server.client(), "around").is_empty()
    });
    let writer = Pglock::new(&server).args(["run", "around", "true"]).spawn();
    until("a ticket", || tickets(&mut server.client()) == 1);
    outer.write(b"go\n");
    outer.wait().assert_code(0).assert_stdout("ran\n");
    writer.wait().assert_code(0);
}

/// The writer waits for the outer reader, which waits for the inner one: that must not stand behind the writer.
#[test]
fn a_reader_that_wants_more_does_not_stand_behind_a_writer_that_waits_for_its_own_reader() {
    let server = Server::start();
    let more = Pglock::new(&server).hold("more");
    let script = r#"read -r line; exec "$PGLOCK" run -v -s --also more around echo ran"#;
    let outer = Pglock::new(&server).through(&LAUNCHER);
    let mut outer = outer
        .args(["run", "-s", "around", "sh", "-c", script])
        .spawn();
    until("the outer reader", || {
        !holders(&mut server.client(), "around").is_empty()
    });
    let writer = Pglock::new(&server).args(["run", "around", "true"]).spawn();
    until("a ticket", || tickets(&mut server.client()) == 1);
    outer.write(b"go\n");
    outer.wait_stderr(" ahead in line");
    more.let_go().assert_code(0);
    outer.wait().assert_code(0).assert_stdout("ran\n");
    writer.wait().assert_code(0);
}
