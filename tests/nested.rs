//! A command that asks for what its own pglock holds.

use std::time::{Duration, Instant};

use crate::support::{Pglock, PoolMode, Running, Server, Site, assert_free};

/// Runs pglock under a pglock, which both get the words before the lock's name.
fn nested(pglock: Pglock, outer: &[&str], inner: &[&str]) -> Running {
    let outer = pglock
        .through(&["sh", "-c", r#"export PGLOCK="$0"; exec "$0" "$@""#])
        .args(outer);
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
