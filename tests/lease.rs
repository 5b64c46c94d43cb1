//! The lease: heartbeats prove that the lock is held, and a command is dead before the server can give its lock away.

use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use postgres::Client;

use crate::support::{
    Pglock, PoolMode, Proxy, Running, Server, Site, Waiter, holders, process_state,
    terminate_holder, until,
};

/// A heartbeat every half second, which has half a second to be answered.
const LEASE: [&str; 4] = ["--lease", "3s", "--grace", "500ms"];
const SHORT: Duration = Duration::from_secs(3);

/// Ignores TERM.
const STUBBORN: &str = "trap '' TERM; echo $$; while :; do read -r line; done";

#[test]
fn heartbeats_leave_no_trace_in_list() {
    let server = Server::shared();
    let mut client = server.client();
    for options in [&[][..], &["-s"], &["-N", "beats"], &["-s", "-N", "beats"]] {
        let holder = pglock().args(LEASE).args(options).hold("seen");
        let list = || {
            let namespace = options.iter().skip_while(|option| **option != "-N");
            let list = pglock()
                .arg("list")
                .args(namespace)
                .args(["--json", "seen"])
                .run();
            let locks: serde_json::Value =
                serde_json::from_str(&list.assert_code(0).stdout).expect("JSON");
            assert_eq!(locks.as_array().unwrap().len(), 1, "{locks}");
            locks[0].clone()
        };
        let first = list();
        assert_eq!(first["name"], "seen");
        assert_eq!(first["command"], "cat");
        let wrapper = first["wrapper_pid"].to_string();
        await_heartbeats(&mut client, &wrapper, 3);
        let later = list();
        for key in ["name", "since", "state", "mode", "command", "backend_start"] {
            assert_eq!(later[key], first[key], "{key}");
        }
        holder.let_go().assert_code(0).assert_stderr("");
    }
}

#[test]
fn heartbeats_let_nobody_in_who_is_queued_in_the_server() {
    let server = Server::shared();
    let mut client = server.client();
    for (options, call) in [
        (&[][..], "pg_advisory_lock(42001)"),
        (&["-s"], "pg_advisory_lock(42001)"),
        (&[], "pg_advisory_lock_shared(42001)"),
    ] {
        let mut holder = pglock()
            .args(["run", "--raw"])
            .args(LEASE)
            .args(options)
            .args(["42001", "cat"])
            .spawn();
        holder.write(b"ready\n");
        holder.wait_line("ready");
        let waiter = Waiter::start(server, "postgres", call);
        let wrapper = holder.pid().to_string();
        await_heartbeats(&mut client, &wrapper, 3);
        let waiting = "SELECT count(*) FROM pg_locks WHERE pid = $1 AND NOT granted";
        let row = client.query_one(waiting, &[&waiter.pid()]).unwrap();
        assert_eq!(row.get::<_, i64>(0), 1, "{options:?} {call}");
        holder.let_go().assert_code(0).assert_stderr("");
        drop(waiter.granted());
    }
}

#[test]
fn a_frozen_connection_stops_the_command_within_the_lease() {
    let proxy = Proxy::to(Server::shared());
    let pglock = pglock().envs(proxy.env());
    assert_stopped_within_the_lease(pglock, "frozen-proxy", || proxy.freeze());
}

#[test]
fn a_frozen_pooler_stops_the_command_within_the_lease() {
    for mode in [PoolMode::Session, PoolMode::Transaction] {
        let site = Site::new(mode, 2, &[]);
        let scope = match mode {
            PoolMode::Session => "session",
            PoolMode::Transaction | PoolMode::Statement => "transaction",
        };
        let pglock = site
            .pooled()
            .through(&["setsid"])
            .args(["run", "--scope", scope]);
        assert_stopped(pglock, "frozen-pooler", || site.pooler.freeze());
    }
}

#[test]
fn a_frozen_backend_stops_the_command_within_the_lease() {
    let server = Server::start();
    let pglock = Pglock::new(&server).through(&["setsid"]);
    let mut client = server.client();
    let mut frozen = None;
    assert_stopped_within_the_lease(pglock, "frozen-backend", || {
        let backend = Pid::from_raw(holders(&mut client, "frozen-backend")[0]);
        kill(backend, Signal::SIGSTOP).unwrap();
        frozen = Some(backend);
    });
    kill(frozen.expect("stopped above"), Signal::SIGCONT).unwrap();
}

#[test]
fn a_command_may_outlive_its_lock_if_that_is_asked_for() {
    let server = Server::shared();
    let mut running = pglock()
        .args(["run", "--on-lost", "warn", "outlived", "cat"])
        .spawn();
    running.write(b"ready\n");
    running.wait_line("ready");
    terminate_holder(server, "outlived");
    running.wait_stderr("\n");
    // It goes on, and what it ends with is not what counts.
    running.write(b"still here\n");
    running.wait_line("still here");
    running
        .let_go()
        .assert_code(123)
        .assert_stdout("ready\nstill here\n")
        .assert_one_message()
        .assert_stderr_has(
            "pglock: outlived was lost: terminating connection due to administrator command; \
             the command goes on without it\n",
        );
}

#[test]
fn a_command_that_outlives_its_lock_still_gets_signals() {
    let script = "trap 'echo TERM; exit 3' TERM; echo ready; while :; do read -r line; done";
    let mut running = pglock()
        .args([
            "run",
            "--on-lost",
            "warn",
            "outlived-signal",
            "sh",
            "-c",
            script,
        ])
        .spawn();
    running.wait_line("ready");
    terminate_holder(Server::shared(), "outlived-signal");
    running.wait_stderr("goes on without it\n");
    running.signal(Signal::SIGTERM);
    running
        .wait()
        .assert_code(123)
        .assert_stdout("ready\nTERM\n");
}

#[test]
fn the_longest_lease_was_more_probes_than_linux_takes() {
    let server = Server::start();
    for lease in ["10m", "12m50s", "24h"] {
        Pglock::new(&server)
            .env("PGHOST", server.host())
            .args(["run", "--lease", lease, "long", "echo", "ran"])
            .run()
            .assert_code(0)
            .assert_stdout("ran\n")
            .assert_stderr("");
    }
    let log = server.log();
    assert!(!log.contains("setsockopt"), "{log}");
}

#[test]
fn a_grace_that_the_lease_has_no_room_for_is_refused_with_what_would_fit() {
    let refused = |words: &[&str], message: &str| {
        Pglock::without_server()
            .arg("run")
            .args(words)
            .args(["x", "echo", "ran"])
            .run()
            .assert_code(125)
            .assert_stdout("")
            .assert_stderr(&format!("pglock: {message}\n"));
    };
    let too_long = "or the lock could be given away while the command still runs";
    refused(
        &["--grace", "16s"],
        &format!("--grace: at most 15s with a lease of 30s, {too_long}; --lease 32s would fit"),
    );
    refused(
        &["--lease", "6s", "--grace", "3500ms"],
        &format!("--grace: at most 3s with a lease of 6s, {too_long}; --lease 7s would fit"),
    );
    for lease in ["0", "2999ms", "25h"] {
        refused(&["--lease", lease], "--lease: at least 3s and at most 24h");
    }
}

/// Makes the server fall silent under a command that ignores TERM; everything of it is dead before the lease is over.
#[track_caller]
fn assert_stopped_within_the_lease(pglock: Pglock, lock: &str, silence: impl FnOnce()) {
    assert_stopped(pglock.arg("run"), lock, silence);
}

#[track_caller]
fn assert_stopped(pglock: Pglock, lock: &str, silence: impl FnOnce()) {
    let mut running: Running = pglock
        .args(LEASE)
        .args([lock, "sh", "-c", STUBBORN])
        .spawn();
    running.wait_output("a process ID", |running| {
        running.stdout_so_far().ends_with('\n')
    });
    let pid = running.stdout_so_far().trim().parse().unwrap();
    let before = Instant::now();
    silence();
    let finished = running.wait();
    let took = before.elapsed();
    finished
        .assert_code(123)
        .assert_one_message()
        .assert_stderr(&format!(
            "pglock: {lock} was lost: no answer to a heartbeat within 500ms; the command was stopped\n"
        ))
        .assert(took < SHORT, &format!("an end within the lease, not {took:?},"))
        .assert(process_state(Pid::from_raw(pid)).is_none(), "a dead command");
}

/// Waits until the session of this pglock has begun so many more statements.
#[track_caller]
fn await_heartbeats(client: &mut Client, wrapper: &str, count: usize) {
    let pattern = format!("pglock: %:{wrapper})");
    let mut start = || -> String {
        let query = "SELECT query_start::text FROM pg_stat_activity WHERE application_name LIKE $1";
        client.query_one(query, &[&pattern]).unwrap().get(0)
    };
    for _ in 0..count {
        let before = start();
        until("a heartbeat", || start() != before);
    }
}

fn pglock() -> Pglock {
    Pglock::new(Server::shared()).through(&["setsid"])
}
