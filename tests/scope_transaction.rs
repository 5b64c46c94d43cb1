//! `--scope transaction`: a lock in one open transaction, which a transaction pooler leaves its backend.

use std::thread::sleep;
use std::time::{Duration, Instant};

use postgres::Client;

use crate::support::{
    Finished, Pglock, PoolMode, Pooler, Proxy, Running, Server, Shutdown, Site, holders, until,
};

const SCOPE: [&str; 2] = ["--scope", "transaction"];

/// What can end a session, a statement or a transaction, or make it wait, set shorter than the hold.
const HOSTILE: [(&str, &str, u32); 7] = [
    ("statement_timeout", "500ms", 0),
    ("lock_timeout", "500ms", 0),
    ("idle_in_transaction_session_timeout", "500ms", 0),
    ("transaction_timeout", "500ms", 170_000),
    ("default_transaction_isolation", "serializable", 0),
    ("default_transaction_deferrable", "on", 0),
    ("default_transaction_read_only", "on", 0),
];

/// How long the lock is held against the hostile settings, in seconds; `PGLOCK_TEST_HOLD=60` for a long look.
fn hold() -> Duration {
    let seconds = std::env::var("PGLOCK_TEST_HOLD").ok();
    let seconds = seconds.map(|seconds| seconds.parse().expect("whole seconds"));
    Duration::from_secs(seconds.unwrap_or(4))
}

#[test]
fn it_outlasts_hostile_defaults_and_holds_back_no_vacuum() {
    let site = Site::new(PoolMode::Transaction, 5, &[]);
    let proxy = Proxy::to_pooler(&site.pooler);
    let mut client = site.server_client();
    client
        .batch_execute("CREATE TABLE rows AS SELECT generate_series(1, 1000)")
        .unwrap();
    make_hostile(&site);

    let by_socket = site.pooled().args(SCOPE).args(["--lease", "3s"]);
    let by_tcp = site.pooled().envs(proxy.env()).args(SCOPE);
    let mut held = [by_socket.hold("by-socket"), by_tcp.hold("by-tcp")];
    let begun = Instant::now();
    client.batch_execute("DELETE FROM rows").unwrap();
    // Pages at the end that hold no rows, dead ones neither, are given back. A heartbeat has a snapshot as long as it
    // takes, which may be just then.
    let pages = "SELECT pg_relation_size('rows')";
    until("a vacuum that removes all", || {
        client.batch_execute("VACUUM rows").unwrap();
        client.query_one(pages, &[]).unwrap().get::<_, i64>(0) == 0
    });
    while begun.elapsed() < hold() {
        for name in ["by-socket", "by-tcp"] {
            assert_idle_without_snapshot(&mut client, name);
        }
        sleep(Duration::from_millis(50));
    }
    assert!(held.iter_mut().all(Running::is_running));
    for running in held {
        running
            .let_go()
            .assert_code(0)
            .assert_stdout("ready\n")
            .assert_stderr("");
    }
}

#[test]
fn both_scopes_exclude_each_other() {
    let site = Site::new(PoolMode::Transaction, 5, &[]);
    let session = || site.direct().args(["run"]);
    let transaction = || site.pooled().args(["run"]).args(SCOPE);
    let direct_transaction = || site.direct().args(["run"]).args(SCOPE);
    let ways: [&dyn Fn() -> Pglock; 3] = [&session, &transaction, &direct_transaction];
    for (at, holder) in ways.iter().enumerate() {
        let name = format!("excluded-{at}");
        let mut holder = holder().args(["-N", "scopes", &name, "cat"]).spawn();
        holder.write(b"ready\n");
        holder.wait_line("ready");
        for contender in ways {
            let words = ["-N", "scopes", &name, "echo", "ran"];
            assert_busy(&contender().arg("-n").args(words).run());
            assert_busy(&contender().args(["-n", "-s"]).args(words).run());
            let other = ["-n", &name, "echo", "ran"];
            assert_ran(&contender().args(other).run());
        }
        let waiters: Vec<Running> = ways
            .iter()
            .map(|way| way().args(["-N", "scopes", &name, "echo", "ran"]).spawn())
            .collect();
        holder.let_go().assert_code(0).assert_stderr("");
        for waiter in waiters {
            assert_ran(&waiter.wait());
        }
    }
    site.assert_untouched();
}

#[test]
fn a_lock_that_another_client_left_on_the_poolers_backend_excludes_too() {
    let site = Site::new(PoolMode::Transaction, 1, &[]);
    let mut other = site.pooler.client(&site.database);
    for (lock, mode) in [
        ("pg_advisory_lock(77)", &[][..]),
        ("pg_advisory_lock(77)", &["-s"]),
        ("pg_advisory_lock_shared(77)", &[]),
    ] {
        other.simple_query(&format!("SELECT {lock}")).unwrap();
        let contender = site.pooled().arg("try").args(SCOPE).args(mode);
        let finished = contender.args(["--raw", "77", "echo", "ran"]).run();
        finished.assert_code(75).assert_stdout("");
        other
            .simple_query("SELECT pg_advisory_unlock_all()")
            .unwrap();
    }
    let contender = site.pooled().arg("try").args(SCOPE);
    assert_ran(&contender.args(["--raw", "77", "echo", "ran"]).run());
}

#[test]
fn shared_locks_in_transactions_are_held_together() {
    let site = Site::new(PoolMode::Transaction, 5, &[]);
    let hold = || site.pooled().args(SCOPE).arg("-s").hold("shared");
    let both = [hold(), hold()];
    assert_eq!(holders(&mut site.server_client(), "shared").len(), 2);
    let exclusive = site.pooled().arg("try").args(SCOPE);
    assert_busy(&exclusive.args(["shared", "echo", "ran"]).run());
    for holder in both {
        holder.let_go().assert_code(0).assert_stderr("");
    }
}

#[test]
fn a_lock_that_is_not_obtained_leaves_no_transaction() {
    let site = Site::new(PoolMode::Transaction, 1, &[]);
    let holder = site.direct().hold("left");
    let words = ["-w", "1500ms", "left", "echo", "ran"];
    let waiter = site.pooled().arg("run").args(SCOPE).args(words).spawn();
    // The only backend is another's between two tries.
    let mut other = site.pooler.client(&site.database);
    for _ in 0..20 {
        other.batch_execute("BEGIN; SELECT 1; COMMIT").unwrap();
    }
    assert_busy(&waiter.wait());
    holder.let_go().assert_code(0).assert_stderr("");
    drop(other);
    site.assert_untouched();
}

#[test]
fn statement_pooling_is_refused_in_either_scope() {
    let site = Site::new(PoolMode::Statement, 2, &[]);
    for verb in ["run", "try"] {
        let refused = site.pooled().arg(verb).args(SCOPE);
        refused
            .args(["statement", "echo", "ran"])
            .run()
            .assert_code(122)
            .assert_stdout("")
            .assert_one_message()
            .assert_stderr_has("a pooler keeps a backend for one statement only")
            .assert_stderr_has("connect to the server itself");
    }
    site.assert_untouched();
}

#[test]
fn a_pooler_without_a_server_is_no_connection() {
    let server = Server::start();
    let settings = ["server_login_retry = 1", "query_wait_timeout = 1"];
    let pooler = Pooler::start(&server, PoolMode::Transaction, 2, &settings);
    server.stop(Shutdown::Fast);
    let words = ["nowhere", "echo", "ran"];
    let pglock = Pglock::new(&server).envs(pooler.env());
    pglock
        .arg("try")
        .args(SCOPE)
        .args(words)
        .run()
        .assert_code(121)
        .assert_stdout("")
        .assert_one_message();
}

#[test]
fn what_ends_the_transaction_stops_the_command() {
    let site = Site::new(PoolMode::Transaction, 5, &[]);
    let mut client = site.server_client();
    let holder = site.pooled().args(SCOPE).hold("ended");
    let backend = holders(&mut client, "ended")[0];
    client
        .execute("SELECT pg_terminate_backend($1)", &[&backend])
        .unwrap();
    assert_lost(&holder.wait(), "ended", "");
}

#[test]
fn a_pooler_that_vanishes_stops_the_command() {
    let site = Site::new(PoolMode::Transaction, 5, &[]);
    let holder = site.pooled().args(SCOPE).hold("vanished");
    drop(site);
    assert_lost(&holder.wait(), "vanished", "");
}

#[test]
fn a_poolers_own_limit_stops_the_command() {
    let site = Site::new(
        PoolMode::Transaction,
        5,
        &["idle_transaction_timeout = 0.5"],
    );
    // Heartbeats are no more often than that.
    let holder = site.pooled().args(SCOPE).args(["--lease", "30s"]);
    let lost = holder.hold("limited").wait();
    assert_lost(&lost, "limited", "");
}

#[test]
fn list_shows_such_a_holder_as_any_other() {
    let site = Site::new(PoolMode::Transaction, 5, &[]);
    let holder = site
        .pooled()
        .args(SCOPE)
        .args(["--lease", "3s"])
        .hold("listed");
    let mut client = site.server_client();
    let list = || {
        let list = site.pooled().args(["list", "--json", "listed"]).run();
        let locks: serde_json::Value =
            serde_json::from_str(&list.assert_code(0).stdout).expect("JSON");
        locks[0].clone()
    };
    let first = list();
    assert_eq!(first["name"], "listed");
    assert_eq!(first["state"], "held");
    assert_eq!(first["command"], "cat");
    assert_eq!(first["pid"], holders(&mut client, "listed")[0]);
    let beats = |client: &mut Client| query_start(client, "listed");
    let before = beats(&mut client);
    until("two heartbeats", || beats(&mut client) > before + 0.9);
    assert_eq!(list()["since"], first["since"]);
    holder.let_go().assert_code(0).assert_stderr("");
}

#[test]
fn it_leaves_no_line_in_the_log() {
    let server = Server::start();
    let pooler = Pooler::start(&server, PoolMode::Transaction, 5, &[]);
    for environment in [vec![], pooler.env().to_vec()] {
        let pglock = || Pglock::new(&server).envs(environment.clone());
        let holder = pglock().args(SCOPE).args(["--lease", "3s"]).hold("quiet");
        let mut client = server.client();
        let before = query_start(&mut client, "quiet");
        until("a heartbeat", || {
            query_start(&mut client, "quiet") > before + 0.4
        });
        let contender = pglock().arg("run").args(SCOPE);
        assert_busy(
            &contender
                .args(["-w", "300ms", "quiet", "echo", "ran"])
                .run(),
        );
        holder.let_go().assert_code(0).assert_stderr("");
    }
    drop(pooler);
    server.stop(Shutdown::Smart);
    assert_eq!(server.log_lines_at_or_above_warning(), [""; 0]);
}

/// When the holder's last statement began, in seconds.
fn query_start(client: &mut Client, name: &str) -> f64 {
    let holding = format!("pglock: {name} (%");
    let start = "SELECT extract(epoch FROM query_start)::float8 FROM pg_stat_activity \
         WHERE application_name LIKE $1";
    client.query_one(start, &[&holding]).unwrap().get(0)
}

fn make_hostile(site: &Site) {
    let version = site.server.version_num();
    for (setting, value, since) in HOSTILE {
        if version >= since {
            site.server.execute(&format!(
                "ALTER DATABASE {} SET {setting} = '{value}'",
                site.database
            ));
        }
    }
    // The pool's backends began without them.
    let mut client = site.server.client();
    let backends = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
         WHERE datname = $1 AND application_name <> 'test'";
    client.execute(backends, &[&site.database]).unwrap();
    let mut other = site.pooler.client(&site.database);
    until("hostile defaults", || {
        other.simple_query("SHOW lock_timeout").is_ok_and(|answer| {
            answer.iter().any(|message| {
                matches!(message, postgres::SimpleQueryMessage::Row(row) if row.get(0) == Some("500ms"))
            })
        })
    });
}

#[track_caller]
fn assert_idle_without_snapshot(client: &mut Client, name: &str) {
    let held = holders(client, name);
    assert_eq!(held.len(), 1, "{name}");
    let row = client
        .query_one(
            "SELECT backend_xid IS NULL AND (backend_xmin IS NULL OR state = 'active') FROM pg_stat_activity \
             WHERE pid = $1",
            &[&held[0]],
        )
        .unwrap();
    assert!(row.get::<_, bool>(0), "{name} has a snapshot");
}

#[track_caller]
fn assert_lost(finished: &Finished, lock: &str, cause: &str) {
    finished
        .assert_code(123)
        .assert_one_message()
        .assert_stderr_has(&format!("pglock: {lock} was lost: {cause}"))
        .assert_stderr_has("; the command was stopped\n");
}

#[track_caller]
fn assert_busy(finished: &Finished) {
    finished
        .assert_code(75)
        .assert_stdout("")
        .assert_stderr_has(" is held by ")
        .assert_one_message();
}

#[track_caller]
fn assert_ran(finished: &Finished) {
    finished
        .assert_code(0)
        .assert_stdout("ran\n")
        .assert_stderr("");
}
