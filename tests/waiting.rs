//! Waiting in line: in order of arrival, woken by who leaves, and in nobody's way.

use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use serde_json::Value;

use crate::support::{
    Pglock, Running, Server, child_named, holders, process_state, tickets, until, waiters, within,
};

/// Between two looks of the first in line at a lock whose holder tells nobody, and some more for a busy machine.
const POLL: Duration = Duration::from_millis(2500);

#[test]
fn waiters_are_served_in_order_of_arrival() {
    let server = Server::start();
    for role in ["first", "second", "third"] {
        server.execute(&format!("CREATE ROLE {role} LOGIN"));
    }
    let mut client = server.client();
    let holder = Pglock::new(&server).hold("order");
    let queue: Vec<Running> = (0..20)
        .map(|at| {
            let role = ["first", "second", "third"][at % 3];
            let waiter = Pglock::new(&server).env("PGUSER", role);
            let waiter = waiter.args(["run", "order", "date", "+%s%N"]).spawn();
            until("a ticket", || tickets(&mut client) == at + 1);
            waiter
        })
        .collect();
    assert_eq!(waiters(&mut client, "order").len(), 20);
    let listed = Pglock::new(&server).args(["list", "--json"]).run();
    assert_eq!(
        listed.stdout.matches("\"name\":\"order\"").count(),
        21,
        "{}",
        listed.stdout
    );

    let begun = Instant::now();
    holder.let_go().assert_code(0).assert_stderr("");
    let times: Vec<u64> = queue.into_iter().map(time_of).collect();
    let took = begun.elapsed();
    assert!(times.is_sorted(), "{times:?}");
    // Twenty processes and sessions have to end; a poll each would take ten times as long.
    assert!(took < Duration::from_secs(4), "{took:?}");
    assert_eq!(tickets(&mut client), 0);
    drop(client);
    server.stop(crate::support::Shutdown::Smart);
    assert_eq!(server.log_lines_at_or_above_warning(), [""; 0]);
}

#[test]
fn a_stopped_waiter_delays_the_others_by_little() {
    let server = Server::start();
    let mut client = server.client();
    let holder = Pglock::new(&server).hold("stopped");
    let mut queue: Vec<Running> = (0..6)
        .map(|at| {
            let waiter = Pglock::new(&server).through(&["setsid"]);
            let waiter = waiter.args(["run", "stopped", "date", "+%s%N"]).spawn();
            until("a ticket", || tickets(&mut client) == at + 1);
            waiter
        })
        .collect();
    let mut stopped = queue.remove(2);
    stopped.signal(Signal::SIGSTOP);
    until("its stop", || process_state(stopped.pid()) == Some('T'));
    let mut last = Instant::now();
    holder.let_go().assert_code(0);
    let mut times = Vec::new();
    for waiter in queue {
        times.push(time_of(waiter));
        let late = last.elapsed();
        assert!(late < Duration::from_secs(3), "{late:?}");
        last = Instant::now();
    }
    assert!(times.is_sorted(), "{times:?}");
    stopped.signal(Signal::SIGCONT);
    time_of(stopped);
}

#[test]
fn a_killed_waiter_leaves_no_trace() {
    let server = Server::start();
    let mut client = server.client();
    let holder = Pglock::new(&server).hold("killed");
    let waiter = || {
        Pglock::new(&server)
            .args(["run", "killed", "echo", "ran"])
            .spawn()
    };
    let mut killed = waiter();
    until("a ticket", || tickets(&mut client) == 1);
    let next = waiter();
    until("two tickets", || tickets(&mut client) == 2);
    killed.signal(Signal::SIGKILL);
    within(Duration::from_secs(2), "one ticket", || {
        tickets(&mut client) == 1
    });
    holder.let_go().assert_code(0);
    next.wait().assert_code(0).assert_stdout("ran\n");
    assert_eq!(tickets(&mut client), 0);
}

#[test]
fn a_holder_that_tells_nobody_is_noticed() {
    let server = Server::start();
    let mut client = server.client();
    let mut foreign = server.client();
    let key = "SELECT pg_advisory_lock(4711)";
    foreign.batch_execute(key).unwrap();
    let waiter = || {
        Pglock::new(&server)
            .args(["run", "--raw", "4711", "cat"])
            .spawn()
    };
    let mut first = waiter();
    until("a ticket", || tickets(&mut client) == 1);
    let unlocked = Instant::now();
    foreign
        .batch_execute("SELECT pg_advisory_unlock(4711)")
        .unwrap();
    first.write(b"mine\n");
    first.wait_line("mine");
    assert!(unlocked.elapsed() < POLL, "{:?}", unlocked.elapsed());

    let mut second = waiter();
    until("a ticket", || tickets(&mut client) == 1);
    let ended = Instant::now();
    let end = "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE objid = 4711 AND granted";
    client.batch_execute(end).unwrap();
    second.write(b"mine\n");
    second.wait_line("mine");
    assert!(ended.elapsed() < POLL, "{:?}", ended.elapsed());
    first.wait().assert_code(123);
    second.let_go().assert_code(0);
}

#[test]
fn those_who_share_the_lock_come_in_together() {
    let server = Server::start();
    let mut client = server.client();
    let holder = Pglock::new(&server).hold("shared");
    let mut together: Vec<Running> = (0..4)
        .map(|at| {
            let waiter = Pglock::new(&server)
                .args(["run", "-s", "shared", "cat"])
                .spawn();
            until("a ticket", || tickets(&mut client) == at + 1);
            waiter
        })
        .collect();
    let freed = Instant::now();
    holder.let_go().assert_code(0);
    for waiter in &mut together {
        waiter.write(b"in\n");
        waiter.wait_line("in");
    }
    assert!(freed.elapsed() < POLL, "{:?}", freed.elapsed());
    assert_eq!(holders(&mut client, "shared").len(), 4);
    for waiter in together {
        waiter.let_go().assert_code(0).assert_stderr("");
    }
}

#[test]
fn who_gives_up_leaves_no_trace_and_passes_the_turn_on() {
    let server = Server::start();
    let mut client = server.client();
    let holder = Pglock::new(&server).hold("given-up");
    let words = ["run", "-w", "1s", "given-up", "echo", "ran"];
    let impatient = Pglock::new(&server).args(words).spawn();
    until("a ticket", || tickets(&mut client) == 1);
    let patient = Pglock::new(&server)
        .args(["run", "given-up", "echo", "ran"])
        .spawn();
    until("two tickets", || tickets(&mut client) == 2);
    impatient
        .wait()
        .assert_code(75)
        .assert_stdout("")
        .assert_one_message()
        .assert_stderr_has("given-up is held by postgres");
    until("one ticket", || tickets(&mut client) == 1);
    let freed = Instant::now();
    holder.let_go().assert_code(0);
    patient.wait().assert_code(0).assert_stdout("ran\n");
    assert!(freed.elapsed() < POLL, "{:?}", freed.elapsed());
}

#[test]
fn among_many_who_wait_patience_ends_when_it_should() {
    let server = Server::start();
    let mut client = server.client();
    let holder = Pglock::new(&server).hold("accurate");
    let wait = |patience: &str| {
        let words = ["run", "-w", patience, "accurate", "true"];
        Pglock::new(&server).args(words).spawn()
    };
    let many: Vec<Running> = (0..50).map(|_| wait("60s")).collect();
    until("fifty tickets", || tickets(&mut client) == 50);
    for _ in 0..5 {
        let impatient = wait("1s").wait();
        impatient
            .assert_code(75)
            .assert_stderr_has("; 50 ahead in line; ");
        let late = impatient.took.saturating_sub(Duration::from_secs(1));
        assert!(late < Duration::from_millis(250), "{late:?}");
    }
    holder.let_go().assert_code(0);
    for waiter in many {
        waiter.wait().assert_code(0).assert_stderr("");
    }
}

#[test]
fn an_index_is_built_concurrently_while_others_wait() {
    let server = Server::start();
    let mut client = server.client();
    client
        .batch_execute(
            "CREATE TABLE t AS SELECT generate_series(1, 1000) AS n; CREATE TABLE dead AS SELECT * FROM t",
        )
        .unwrap();
    let socket = server.socket_dir().display().to_string();
    let psql = format!(
        "read -r line; psql -X -h {socket} -p {} -U postgres -d postgres -c 'CREATE INDEX CONCURRENTLY ON t (n)'",
        server.port()
    );
    let words = ["run", "index", "sh", "-c", &psql];
    let mut builder = Pglock::new(&server).args(words).spawn();
    until("the lock", || holders(&mut client, "index").len() == 1);
    let waiting: Vec<Running> = (0..5)
        .map(|_| Pglock::new(&server).args(["run", "index", "true"]).spawn())
        .collect();
    until("five tickets", || tickets(&mut client) == 5);
    for _ in 0..50 {
        let row = client
            .query_one(
                "SELECT count(*) FILTER (WHERE state <> 'active' AND (backend_xmin IS NOT NULL OR xact_start IS NOT NULL)) \
                 FROM pg_stat_activity WHERE application_name LIKE 'pglock? %'",
                &[],
            )
            .unwrap();
        assert_eq!(row.get::<_, i64>(0), 0);
    }
    client.batch_execute("DELETE FROM dead").unwrap();
    // One who looks at the queue has a snapshot as long as that takes, which may be just then.
    until("a vacuum that removes all", || {
        client.batch_execute("VACUUM dead").unwrap();
        let pages = client.query_one("SELECT pg_relation_size('dead')", &[]);
        pages.unwrap().get::<_, i64>(0) == 0
    });
    let begun = Instant::now();
    builder.write(b"go\n");
    builder
        .wait()
        .assert_code(0)
        .assert_stdout("CREATE INDEX\n");
    assert!(
        begun.elapsed() < Duration::from_secs(2),
        "{:?}",
        begun.elapsed()
    );
    for waiter in waiting {
        waiter.wait().assert_code(0).assert_stderr("");
    }
}

#[test]
fn a_waiter_whose_session_ends_says_so_at_once() {
    let server = Server::start();
    let mut client = server.client();
    let holder = Pglock::new(&server).hold("ended");
    let queue: Vec<Running> = (0..3)
        .map(|at| {
            let words = ["run", "-w", "50s", "ended", "echo", "ran"];
            let waiter = Pglock::new(&server).args(words).spawn();
            until("a ticket", || tickets(&mut client) == at + 1);
            waiter
        })
        .collect();
    let ended = Instant::now();
    client
        .batch_execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'pglock? %'",
        )
        .unwrap();
    for waiter in queue {
        waiter
            .wait()
            .assert_code(121)
            .assert_stdout("")
            .assert_one_message()
            .assert_stderr_has("the connection was lost: ");
    }
    assert!(
        ended.elapsed() < Duration::from_secs(3),
        "{:?}",
        ended.elapsed()
    );
    holder.let_go().assert_code(0);
}

#[test]
fn a_writer_in_line_is_not_overtaken_by_readers() {
    let server = Server::start();
    let mut client = server.client();
    let read = |name: &str| {
        let mut reader = Pglock::new(&server)
            .args(["run", "-s", name, "cat"])
            .spawn();
        reader.write(b"in\n");
        reader
    };
    let mut first = read("crowded");
    first.wait_line("in");
    let mut second = read("crowded");
    second.wait_line("in");
    let mut writer = Pglock::new(&server).args(["run", "crowded", "cat"]).spawn();
    writer.write(b"in\n");
    until("a ticket", || tickets(&mut client) == 1);
    let late = read("crowded");
    until("two tickets", || tickets(&mut client) == 2);
    // One of two readers leaves, and says so; the late one must not take that for its turn.
    second.let_go().assert_code(0);
    let seen = Instant::now();
    until("some looks", || seen.elapsed() > Duration::from_secs(3));
    assert_eq!(late.stdout_so_far(), "");
    first.let_go().assert_code(0);
    writer.wait_line("in");
    assert_eq!(late.stdout_so_far(), "");
    writer.let_go().assert_code(0);
    late.let_go().assert_code(0).assert_stdout("in\n");
}

#[test]
fn on_a_terminal_a_line_says_what_is_waited_for_and_vanishes() {
    let server = Server::start();
    let holder = Pglock::new(&server).args(["-N", "live"]).hold("line");
    let words = ["run", "-N", "live", "line", "echo", "ran"];
    let mut terminal = Pglock::new(&server).args(words).on_terminal();
    terminal.wait_for("\r\x1b[Kpglock: waiting, 0 ahead | live/line is held by postgres on ");
    let longest = |output: &str| {
        let lines = output.split(['\r', '\n']);
        lines
            .map(|line| line.trim_start_matches("\x1b[K").len())
            .max()
    };
    assert!(longest(&terminal.output_so_far()) < Some(80));
    holder.let_go().assert_code(0);
    let finished = terminal.wait();
    let shown = finished.stdout.rsplit("\r\x1b[K").next();
    finished.assert_code(0).assert(
        shown == Some("ran\r\n"),
        "nothing but the command's output is left",
    );

    // Neither where it would be in the way of other lines, nor where nobody looks.
    let holder = Pglock::new(&server).hold("line");
    for options in [&["-q"][..], &["-v"]] {
        let words = ["-w", "300ms", "line", "echo", "ran"];
        let quiet = Pglock::new(&server).arg("run").args(options).args(words);
        let finished = quiet.on_terminal().wait();
        finished
            .assert_code(75)
            .assert(!finished.stdout.contains(" ahead | "), "no status line");
    }
    holder.let_go().assert_code(0);
}

#[test]
fn a_server_without_room_is_asked_again() {
    let server = Server::start();
    let role = server.role("CONNECTION LIMIT 1");
    let pglock = || Pglock::new(&server).env("PGUSER", &role);
    let holder = pglock().hold("roomless");
    let mut waiter = pglock()
        .args(["run", "-v", "another", "echo", "ran"])
        .spawn();
    waiter.wait_stderr("too many connections for role");
    waiter.wait_stderr(": trying again until there is room\n");
    for words in [
        &["try", "another", "echo", "ran"][..],
        &["run", "-q", "-w", "1s", "another", "echo", "ran"],
    ] {
        pglock()
            .args(words)
            .run()
            .assert_code(121)
            .assert_stdout("")
            .assert_one_message()
            .assert_stderr_has("too many connections");
    }
    holder.let_go().assert_code(0);
    waiter.wait().assert_code(0).assert_stdout("ran\n");
}

/// What `date` said.
#[track_caller]
fn time_of(waiter: Running) -> u64 {
    let finished = waiter.wait();
    finished.assert_code(0).assert_stderr("");
    finished.stdout.trim().parse().unwrap()
}

#[test]
fn one_who_waited_is_shown_with_everything_from_the_first_moment() {
    let server = Server::start();
    let name = "a-rather-long-name-".repeat(6);
    let holder = Pglock::new(&server).hold(&name);
    let mut waiter = Pglock::new(&server).args(["run", &name, "cat"]).spawn();
    waiter.write(b"in\n");
    until("a ticket", || tickets(&mut server.client()) == 1);
    holder.let_go().assert_code(0);
    waiter.wait_line("in");
    for _ in 0..20 {
        let listed = Pglock::new(&server).args(["list", "--json", &name]).run();
        let locks: Value = serde_json::from_str(&listed.stdout).unwrap();
        let view = &locks[0];
        assert_eq!(view["command"], "cat", "{view}");
        assert!(
            view["name"] == name.as_str() && view["since"].is_string(),
            "{view}"
        );
    }
    waiter.let_go().assert_code(0);
}

#[test]
fn a_stranger_in_the_queues_namespace_keeps_nobody_from_a_free_lock() {
    let server = Server::start();
    let mut stranger = server.client();
    let holder = Pglock::new(&server).hold("disturbed");
    let waiter = Pglock::new(&server)
        .args(["run", "disturbed", "true"])
        .spawn();
    until("a ticket", || tickets(&mut stranger) == 1);
    let class = "SELECT classid::int8::bit(32)::int FROM pg_locks \
         WHERE locktype = 'advisory' AND objsubid = 2 AND objid = 0";
    let class: i32 = stranger.query_one(class, &[]).unwrap().get(0);
    holder.let_go().assert_code(0);
    waiter.wait().assert_code(0);
    stranger
        .execute("SELECT pg_advisory_lock($1, 0)", &[&class])
        .unwrap();
    let words = ["run", "-w", "20s", "disturbed", "echo", "ran"];
    let ran = Pglock::new(&server).args(words).run();
    ran.assert_code(0).assert_stdout("ran\n").assert_stderr("");
    assert!(ran.took < Duration::from_secs(3), "{:?}", ran.took);
}

#[test]
fn a_lock_is_not_hidden_by_who_pretends_to_wait() {
    let server = Server::start();
    let role = server.role("");
    let mut pretender = server.client_as("postgres", &role);
    pretender
        .batch_execute(
            "SET application_name = 'pglock? x (h:1)'; \
             SELECT pg_advisory_lock_shared(7, 0), pg_advisory_lock(7, 5)",
        )
        .unwrap();
    let words = ["list", "-q", "--raw", "7,5"];
    Pglock::new(&server).args(words).run().assert_code(0);
}

/// Nobody tells them: whoever finds the lock free says so, and the first has a moment's time.
#[test]
fn order_is_kept_after_a_holder_that_was_killed() {
    let server = Server::start();
    let mut client = server.client();
    for _ in 0..2 {
        let mut holder = Pglock::new(&server).arg("-o").hold("killed");
        let queue: Vec<Running> = (0..8)
            .map(|at| {
                let waiter = Pglock::new(&server).args(["run", "killed", "date", "+%s%N"]);
                let waiter = waiter.spawn();
                until("a ticket", || tickets(&mut client) == at + 1);
                waiter
            })
            .collect();
        let command = child_named(holder.pid(), "cat").unwrap();
        holder.signal(Signal::SIGKILL);
        nix::sys::signal::kill(command, Signal::SIGKILL).unwrap();
        holder.wait().assert_signal(9);
        let times: Vec<u64> = queue.into_iter().map(time_of).collect();
        assert!(times.is_sorted(), "{times:?}");
    }
}
