//! `--also`: several locks, all or none.

use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::{
    Pglock, PoolMode, Running, Server, Site, assert_free, holders, terminate_holder, tickets, until,
};

#[test]
fn all_are_held_or_none() {
    let server = Server::shared();
    let together = Pglock::new(server).args(["--also", "with-2", "--also", "with-3"]);
    let together = together.hold("with-1");
    for name in ["with-1", "with-2", "with-3"] {
        let other = Pglock::new(server).args(["try", name, "true"]).run();
        other
            .assert_code(75)
            .assert_one_message()
            .assert_stderr_has(&format!("pglock: {name} is held by postgres on "))
            .assert_stderr_has(&format!("; to free it: pglock release {name}\n"));
    }
    together.let_go().assert_code(0).assert_stderr("");
    for name in ["with-1", "with-2", "with-3"] {
        assert_free(server, name);
    }

    let one = Pglock::new(server).hold("with-2");
    let words = [
        "try", "--also", "with-2", "--also", "with-3", "with-1", "true",
    ];
    Pglock::new(server)
        .args(words)
        .run()
        .assert_code(75)
        .assert_stderr_has("pglock: with-2 is held by postgres on ");
    assert_free(server, "with-1");
    assert_free(server, "with-3");
    one.let_go().assert_code(0);
}

#[test]
fn named_twice_it_is_held_once() {
    let words = [
        "run", "--also", "twice", "--also", "twice", "twice", "echo", "ran",
    ];
    let finished = Pglock::new(Server::shared()).args(words).run();
    finished
        .assert_code(0)
        .assert_stdout("ran\n")
        .assert_stderr("");
    assert_free(Server::shared(), "twice");
}

#[test]
fn opposite_orders_never_wait_for_one_another() {
    let server = Server::start();
    let loops = [("a", "b"), ("b", "a")].map(|(name, also)| {
        let script = "for _ in $(seq 100); do $PGLOCK run -w 30s --also $1 $0 true || exit; done";
        let mut launched =
            Pglock::new(&server).through(&["sh", "-c", r#"export PGLOCK="$0"; exec "$@""#]);
        launched = launched.args(["sh", "-c", script, name, also]);
        launched.spawn()
    });
    for each in loops {
        each.wait()
            .assert_code(0)
            .assert_stdout("")
            .assert_stderr("");
    }
    assert_eq!(server.log_lines_at_or_above_warning(), [""; 0]);
}

#[test]
fn who_waits_for_several_is_woken_whichever_was_missing() {
    let server = Server::start();
    let mut client = server.client();
    for missing in ["one", "two"] {
        let holder = Pglock::new(&server).hold(missing);
        let words = ["run", "--also", "two", "one", "date", "+%s%N"];
        let waiter = Pglock::new(&server).args(words).spawn();
        until("two tickets", || tickets(&mut client) == 2);
        let freed = Instant::now();
        holder.let_go().assert_code(0);
        waiter.wait().assert_code(0).assert_stderr("");
        let took = freed.elapsed();
        assert!(took < Duration::from_millis(600), "{missing}: {took:?}");
        assert_eq!(tickets(&mut client), 0);
    }
}

#[test]
fn each_lock_is_listed_and_each_wait_and_no_bookkeeping() {
    let server = Server::start();
    let role = server.role("");
    let mut client = server.client();
    let holder = Pglock::new(&server).args(["--also", "second"]);
    let holder = holder.hold("first");
    let words = ["run", "--also", "second", "first", "true"];
    let waiter = Pglock::new(&server).args(words).spawn();
    until("two tickets", || tickets(&mut client) == 2);
    let list = |user: &str| {
        let listed = Pglock::new(&server).env("PGUSER", user);
        let listed = listed.args(["list", "--json"]).run();
        let locks: Value = serde_json::from_str(&listed.stdout).unwrap();
        let locks = locks.as_array().unwrap().clone();
        let mut locks: Vec<String> = locks
            .iter()
            .map(|lock| format!("{} {}", lock["state"], lock["name"]).replace('"', ""))
            .collect();
        locks.sort();
        locks
    };
    assert_eq!(
        list("postgres"),
        [
            "held first",
            "held second",
            "waiting first",
            "waiting second"
        ]
    );
    // The names of the others stand in the query, which a stranger may not read.
    assert_eq!(list(&role), ["held first", "held null", "waiting first"]);
    holder.let_go().assert_code(0);
    waiter.wait().assert_code(0);
}

#[test]
fn a_waiter_for_more_than_it_can_tell_is_not_listed_with_its_tickets() {
    let server = Server::start();
    let holder = Pglock::new(&server).hold("first");
    let also: Vec<String> = (0..12)
        .map(|at| format!("{at}-{}", "n".repeat(100)))
        .collect();
    let also = also.iter().flat_map(|name| ["--also", name]);
    let waiter = Pglock::new(&server).arg("run").args(also);
    let waiter = waiter.args(["first", "true"]).spawn();
    until("its tickets", || tickets(&mut server.client()) == 13);
    let listed = Pglock::new(&server).args(["list", "--json"]).run();
    let locks: Value = serde_json::from_str(&listed.stdout).unwrap();
    let held = locks
        .as_array()
        .unwrap()
        .iter()
        .filter(|lock| lock["state"] == "held");
    assert_eq!(held.count(), 1, "{listed:?}");
    holder.let_go().assert_code(0);
    waiter.wait().assert_code(0);
}

#[test]
fn one_of_several_that_is_lost_is_a_lost_lock() {
    let server = Server::shared();
    let held = Pglock::new(server)
        .args(["--also", "lost-2"])
        .hold("lost-1");
    terminate_holder(server, "lost-2");
    held.wait()
        .assert_code(123)
        .assert_stderr_has("lost-1 was lost: ");
}

#[test]
fn several_in_a_transaction_behind_a_pooler() {
    let site = Site::new(PoolMode::Transaction, 5, &[]);
    let scope = ["--scope", "transaction", "--also", "pooled-2"];
    let held = site.pooled().args(scope).hold("pooled-1");
    assert_eq!(holders(&mut site.server_client(), "pooled-2").len(), 1);
    let other = site.direct().args(["try", "pooled-2", "true"]);
    other.run().assert_code(75);
    let reverse = [
        "try",
        "--scope",
        "transaction",
        "--also",
        "pooled-1",
        "pooled-3",
        "true",
    ];
    site.pooled().args(reverse).run().assert_code(75);
    assert!(holders(&mut site.server_client(), "pooled-3").is_empty());
    held.let_go().assert_code(0);
}

#[test]
fn a_semaphore_and_a_lock_together() {
    let server = Server::shared();
    let words = ["--slots", "2", "--also", "and-this"];
    let first = Pglock::new(server).args(words).hold("some-of");
    let second = Pglock::new(server).arg("try").args(words);
    second
        .args(["some-of", "true"])
        .run()
        .assert_code(75)
        .assert_stderr_has("pglock: and-this is held by ");
    let words = [
        "try",
        "--slots",
        "2",
        "some-of",
        "sh",
        "-c",
        "echo $PGLOCK_SLOT",
    ];
    let beside = Pglock::new(server).args(words).run();
    beside.assert_code(0).assert_stdout("1\n");
    first.let_go().assert_code(0);
}

#[test]
fn locks_of_different_places_cannot_be_held_together() {
    let words = ["run", "-d", "app_{shard:64}", "--also", "c", "a", "true"];
    Pglock::without_server()
        .args(words)
        .run()
        .assert_code(125)
        .assert_one_message()
        .assert_stderr_has("--also: c and a are not locks of one database");
    let raw = Pglock::new(Server::shared()).args(["run", "--raw", "--also", "1,-2", "42", "true"]);
    raw.run().assert_code(0).assert_stderr("");
    let words = ["run", "--raw", "--also", "x", "42", "true"];
    Pglock::without_server().args(words).run().assert_code(125);
}

/// What is free is taken by those who need no more, in a moment, also behind some who need more.
#[test]
fn who_waits_for_more_does_not_keep_a_free_lock_from_others() {
    let server = Server::start();
    let mut client = server.client();
    let busy = Pglock::new(&server).hold("busy");
    let waiting: Vec<Running> = (1..=4)
        .map(|at| {
            let words = ["run", "--also", "idle", "busy", "true"];
            let waiter = Pglock::new(&server).args(words).spawn();
            until("its tickets", || tickets(&mut client) == 2 * at);
            waiter
        })
        .collect();
    let begun = Instant::now();
    let words = ["run", "-w", "20s", "idle", "echo", "ran"];
    let ran = Pglock::new(&server).args(words).run();
    ran.assert_code(0).assert_stdout("ran\n").assert_stderr("");
    let took = begun.elapsed();
    assert!(took < Duration::from_millis(1500), "{took:?}");

    // One who leaves the free lock tells the two in front, who cannot take it; it goes on to those behind.
    let holder = Pglock::new(&server).hold("idle");
    let waiter = Pglock::new(&server).args(words).spawn();
    until("its ticket", || tickets(&mut client) == 9);
    let freed = Instant::now();
    holder.let_go().assert_code(0);
    waiter.wait().assert_code(0).assert_stdout("ran\n");
    let took = freed.elapsed();
    assert!(took < Duration::from_millis(1500), "{took:?}");
    busy.let_go().assert_code(0);
    for waiter in waiting {
        waiter.wait().assert_code(0).assert_stderr("");
    }
}

#[test]
fn what_is_wanted_twice_is_waited_for_once() {
    let server = Server::start();
    let holder = Pglock::new(&server).hold("once");
    let words = [
        "run", "--also", "more", "--also", "more", "--also", "once", "once", "true",
    ];
    let waiter = Pglock::new(&server).args(words).spawn();
    until("two tickets", || tickets(&mut server.client()) == 2);
    let listed = Pglock::new(&server).args(["list", "--json"]).run();
    assert_eq!(
        listed.stdout.matches("\"waiting\"").count(),
        2,
        "{listed:?}"
    );
    holder.let_go().assert_code(0);
    waiter.wait().assert_code(0);
}

#[test]
fn the_line_names_who_is_in_the_way_and_where() {
    let server = Server::start();
    let older = Pglock::new(&server).args(["--slots", "2"]).hold("roomy");
    let newer = Pglock::new(&server).hold("taken");
    let (host, port) = (
        server.socket_dir().display().to_string(),
        server.port().to_string(),
    );
    let place = ["-h", &host, "-p", &port, "-d", "postgres", "-U", "postgres"];
    let words = ["--slots", "2", "--also", "taken", "roomy", "true"];
    let busy = Pglock::without_server()
        .arg("try")
        .args(place)
        .args(words)
        .run();
    busy.assert_code(75)
        .assert_stderr_has("pglock: taken is held by postgres on ")
        .assert_stderr_has(&format!(
            "; to free it: pglock release -d postgres -h {host} -p {port} -U postgres taken\n"
        ));
    newer.let_go().assert_code(0);
    older.let_go().assert_code(0);
}

#[test]
fn in_a_transaction_the_locks_of_another_database_do_not_count() {
    let server = Server::shared();
    let other = server.database();
    let holder = Pglock::new(server).env("PGDATABASE", &other);
    let holder = holder.hold("elsewhere");
    let words = [
        "try",
        "--scope",
        "transaction",
        "--also",
        "elsewhere",
        "here",
        "echo",
        "ran",
    ];
    let ran = Pglock::new(server).args(words).run();
    ran.assert_code(0).assert_stdout("ran\n").assert_stderr("");
    holder.let_go().assert_code(0);
}

/// Two with places in several queues, each ahead of the other in one, and what both lack stays held.
#[test]
fn waiters_with_crossed_places_do_not_tell_one_another_for_ever() {
    let server = Server::start();
    let mut client = server.client();
    let scarce = Pglock::new(&server).hold("scarce");
    let first = Pglock::new(&server).hold("cross-1");
    let words = [
        "run", "--also", "cross-1", "--also", "cross-2", "scarce", "true",
    ];
    let waiting: Vec<Running> = (0..6)
        .map(|_| Pglock::new(&server).args(words).spawn())
        .collect();
    until("their tickets", || tickets(&mut client) == 18);
    first.let_go().assert_code(0);
    // What they ask of the server is counted when it has been told.
    let asked = |client: &mut postgres::Client| {
        let count = "SELECT xact_commit FROM pg_stat_database WHERE datname = 'postgres'";
        client.query_one(count, &[]).unwrap().get::<_, i64>(0)
    };
    let (before, begun) = (asked(&mut client), Instant::now());
    until("a few seconds", || begun.elapsed() > Duration::from_secs(4));
    let more = asked(&mut client) - before;
    assert!(more < 200, "{more} statements in 4 s");
    scarce.let_go().assert_code(0);
    for waiter in waiting {
        waiter.wait().assert_code(0).assert_stderr("");
    }
}
