//! `--slots`: at most so many at once, each in a slot of its own.

use std::collections::BTreeSet;
use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::Value;

use crate::support::{
    Pglock, PoolMode, Running, Server, Site, child_named, holders, tickets, until, within,
};

/// A job that names its slot, and ends when its standard input does.
const NAMES_ITS_SLOT: [&str; 3] = ["sh", "-c", "echo slot $PGLOCK_SLOT; exec cat"];

#[test]
fn never_more_than_the_slots_run_and_all_run_in_the_end() {
    let server = Server::start();
    let mut client = server.client();
    let job = || {
        let words = ["run", "--slots", "3", "jobs"];
        let pglock = Pglock::new(&server).args(words).args(NAMES_ITS_SLOT);
        pglock.spawn()
    };
    let mut running: Vec<Running> = (0..3).map(|_| job()).collect();
    let mut slots = BTreeSet::new();
    for job in &mut running {
        slots.insert(slot_of(job));
    }
    assert_eq!(slots, BTreeSet::from([0, 1, 2]));
    let mut waiting: Vec<Running> = Vec::new();
    for at in 1..=9 {
        waiting.push(job());
        until("its ticket", || tickets(&mut client) == at);
    }
    let mut free = Vec::new();
    for job in waiting {
        // In order of arrival, and only into a slot that is free.
        assert_eq!(job.stdout_so_far(), "");
        let mut first = running.remove(0);
        let slot = slot_of(&mut first);
        free.push(slot);
        first.let_go().assert_code(0).assert_stderr("");
        let mut next = job;
        assert_eq!(slot_of(&mut next), slot);
        running.push(next);
        assert_eq!(held_slots(&server, "jobs"), 3);
    }
    assert_eq!(free.len(), 9);
    for job in running {
        job.let_go().assert_code(0).assert_stderr("");
    }
    assert_eq!(tickets(&mut client), 0);
    assert_eq!(server.log_lines_at_or_above_warning(), [""; 0]);
}

#[test]
fn many_slots_that_become_free_together_are_all_taken() {
    let server = Server::start();
    let mut client = server.client();
    let hold = || Pglock::new(&server).args(["--slots", "3"]).hold("together");
    let first = [hold(), hold(), hold()];
    let waiting: Vec<Running> = (1..=6)
        .map(|at| {
            let words = ["run", "--slots", "3", "together"];
            let job = Pglock::new(&server).args(words).args(NAMES_ITS_SLOT);
            let job = job.spawn();
            until("its ticket", || tickets(&mut client) == at);
            job
        })
        .collect();
    for job in first {
        job.let_go().assert_code(0);
    }
    until("three of them at once", || {
        waiting
            .iter()
            .filter(|job| job.stdout_so_far().contains("slot"))
            .count()
            == 3
    });
    for job in waiting {
        job.let_go().assert_code(0).assert_stderr("");
    }
}

#[test]
fn slot_0_is_the_plain_lock() {
    let server = Server::shared();
    let plain = Pglock::new(server).hold("plain");
    let words = ["try", "--slots", "1", "plain", "true"];
    Pglock::new(server).args(words).run().assert_code(75);
    let mut beside = Pglock::new(server).args(["try", "--slots", "2", "plain"]);
    beside = beside.args(NAMES_ITS_SLOT);
    let mut beside = beside.spawn();
    beside.wait_line("slot 1");
    plain.let_go().assert_code(0);
    let other = Pglock::new(server).args(["try", "plain", "echo", "ran"]);
    other.run().assert_code(0).assert_stdout("ran\n");
    beside.let_go().assert_code(0);
}

#[test]
fn a_slot_is_named_where_locks_are_shown() {
    let server = Server::start();
    let role = server.role("");
    let hold = |words: &[&str]| Pglock::new(&server).args(words).hold("shown");
    let first = hold(&["-N", "ns", "--slots", "2"]);
    let second = hold(&["-N", "ns", "--slots", "2"]);
    for user in ["postgres", &role] {
        let pglock = || Pglock::new(&server).env("PGUSER", user);
        for words in [
            &["list", "--json"][..],
            &["list", "--json", "-N", "ns", "shown"],
        ] {
            let listed = pglock().args(words).run();
            let locks: Value = serde_json::from_str(&listed.stdout).unwrap();
            let shown: BTreeSet<String> = locks.as_array().unwrap().iter().map(described).collect();
            let expected = [0, 1].map(|slot| format!("\"ns\" \"shown\" {slot} 2"));
            assert_eq!(shown, BTreeSet::from(expected), "{user} {words:?}");
        }
    }
    let busy = Pglock::new(&server).args(["try", "-N", "ns", "--slots", "2", "shown", "true"]);
    busy.run()
        .assert_code(75)
        .assert_one_message()
        .assert_stderr_has("2 of 2 slots of ns/shown are held, the longest by postgres on ")
        .assert_stderr_has("; to free it: pglock release -N ns shown\n");

    let words = ["release", "--force", "-N", "ns", "shown"];
    Pglock::new(&server).args(words).run().assert_code(0);
    first.wait().assert_code(123);
    second.wait().assert_code(123);
}

#[test]
fn a_killed_holder_frees_its_slot_and_the_others_keep_theirs() {
    let server = Server::start();
    let hold = || {
        let words = ["-o", "--slots", "2"];
        Pglock::new(&server).args(words).hold("killed")
    };
    let mut first = hold();
    let second = hold();
    let words = ["run", "--slots", "2", "killed", "echo", "ran"];
    let waiter = Pglock::new(&server).args(words).spawn();
    until("its ticket", || tickets(&mut server.client()) == 1);
    let command = child_named(first.pid(), "cat").unwrap();
    first.signal(Signal::SIGKILL);
    nix::sys::signal::kill(command, Signal::SIGKILL).unwrap();
    first.wait().assert_signal(9);
    waiter.wait().assert_code(0).assert_stdout("ran\n");
    assert_eq!(held_slots(&server, "killed"), 1);
    second.let_go().assert_code(0);
}

#[test]
fn slots_in_a_transaction_behind_a_pooler() {
    let site = Site::new(PoolMode::Transaction, 5, &[]);
    let pglock = || {
        site.pooled()
            .args(["--scope", "transaction", "--slots", "2"])
    };
    let (first, second) = (pglock().hold("pooled"), pglock().hold("pooled"));
    let busy = site.pooled().arg("try");
    let busy = busy.args(["--scope", "transaction", "--slots", "2", "pooled", "true"]);
    busy.run()
        .assert_code(75)
        .assert_stderr_has("2 of 2 slots of pooled are held");
    first.let_go().assert_code(0);
    within(Duration::from_secs(5), "the other slot alone", || {
        holders(&mut site.server_client(), "pooled").is_empty()
    });
    pglock().hold("pooled").let_go().assert_code(0);
    second.let_go().assert_code(0);
}

#[test]
fn only_numbers_that_make_sense_are_slots() {
    for words in [
        &["--slots", "0", "odd", "true"][..],
        &["--slots", "101", "odd", "true"],
        &["--slots", "-1", "odd", "true"],
        &["--slots", "2", "--shared", "odd", "true"],
    ] {
        let refused = Pglock::without_server().arg("run").args(words).run();
        refused.assert_code(125).assert_stdout("");
    }
    let words = [
        "run",
        "--slots",
        "100",
        "all",
        "sh",
        "-c",
        "echo $PGLOCK_SLOT",
    ];
    let last = Pglock::new(Server::shared()).args(words).run();
    last.assert_code(0).assert_stdout("0\n").assert_stderr("");
    let plain = Pglock::new(Server::shared()).env("PGLOCK_SLOT", "7");
    let words = ["run", "inherited", "sh", "-c", "echo ${PGLOCK_SLOT-none}"];
    plain
        .args(words)
        .run()
        .assert_code(0)
        .assert_stdout("none\n");
}

fn described(lock: &Value) -> String {
    format!(
        "{} {} {} {}",
        lock["namespace"], lock["name"], lock["slot"], lock["slots"]
    )
}

/// The slot that a job has named, or names now.
#[track_caller]
fn slot_of(job: &mut Running) -> u32 {
    job.wait_output("the number of its slot", |job| {
        job.stdout_so_far().ends_with('\n')
    });
    let said = job.stdout_so_far();
    said.trim().strip_prefix("slot ").unwrap().parse().unwrap()
}

#[track_caller]
fn held_slots(server: &Server, name: &str) -> usize {
    let listed = Pglock::new(server).args(["list", "--json", name]).run();
    let locks: Value = serde_json::from_str(&listed.stdout).unwrap();
    let locks = locks.as_array().unwrap();
    locks.iter().filter(|lock| lock["state"] == "held").count()
}

#[test]
fn who_waits_for_the_plain_lock_does_not_keep_the_other_slots_from_others() {
    let server = Server::start();
    let plain = Pglock::new(&server).hold("mixed");
    let waiter = Pglock::new(&server).args(["run", "mixed", "true"]).spawn();
    until("its ticket", || tickets(&mut server.client()) == 1);
    let words = ["run", "-w", "20s", "--slots", "3", "mixed"];
    let beside = Pglock::new(&server)
        .args(words)
        .args(["sh", "-c", "echo $PGLOCK_SLOT"]);
    let beside = beside.run();
    beside.assert_code(0).assert_stdout("1\n").assert_stderr("");
    assert!(
        beside.took < Duration::from_millis(1500),
        "{:?}",
        beside.took
    );
    plain.let_go().assert_code(0);
    waiter.wait().assert_code(0);
}
