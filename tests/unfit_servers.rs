//! Servers on which a lock would exclude nobody: refused before anything runs; and how the right one is found.

use std::net::TcpListener;
use std::sync::OnceLock;
use std::thread;

use crate::support::look_alike::{error, message, serve};
use crate::support::{Finished, Pglock, Server, Standby, backend_pid, holders};

const VERBS: [&str; 2] = ["try", "run"];

#[test]
fn a_standby_is_refused() {
    let (_, standby) = pair();
    for verb in VERBS {
        let finished = on(standby).args([verb, "standby", "echo", "ran"]).run();
        assert_unfit(&finished, "this server is a standby");
        finished.assert_stderr_has("connect to the primary");
    }
    assert!(holders(&mut standby.client(), "standby").is_empty());
}

#[test]
fn of_several_servers_the_primary_is_found() {
    let (primary, standby) = pair();
    let mut client = primary.client();
    for ports in both_orders() {
        let holder = on_both(&ports).hold("found");
        assert_eq!(holders(&mut client, "found").len(), 1, "{ports}");
        assert!(holders(&mut standby.client(), "found").is_empty());
        holder.let_go().assert_code(0).assert_stderr("");
    }
}

#[test]
fn a_session_that_is_wanted_on_a_standby_holds_no_lock() {
    let (primary, standby) = pair();
    for verb in VERBS {
        let wanted = |pglock: Pglock| {
            let pglock = pglock.env("PGTARGETSESSIONATTRS", "standby");
            pglock.args([verb, "wanted", "echo", "ran"]).run()
        };
        assert_unfit(&wanted(on(standby)), "this server is a standby");
        for ports in both_orders() {
            assert_unfit(&wanted(on_both(&ports)), "this server is a standby");
        }
        assert_no_session(
            &wanted(Pglock::new(primary)),
            "server is not in hot standby mode",
        );
    }
}

#[test]
fn a_standby_is_no_primary() {
    let (_, standby) = pair();
    for (wanted, complaint) in [
        ("primary", "server is in hot standby mode"),
        ("read-write", "session is read-only"),
    ] {
        for verb in VERBS {
            let pglock = on(standby).env("PGTARGETSESSIONATTRS", wanted);
            let finished = pglock.args([verb, "none", "echo", "ran"]).run();
            assert_no_session(&finished, complaint);
        }
    }
}

#[test]
fn a_standbys_own_locks_are_listed() {
    let (primary, standby) = pair();
    let mut client = standby.client();
    let taken = client.batch_execute("SELECT pg_advisory_lock(4711)");
    taken.unwrap();
    let backend = backend_pid(&mut client);
    assert_lists(on(standby), Some(backend));
    assert_lists(Pglock::new(primary), None);
    for ports in both_orders() {
        let preferring = |kind| on_both(&ports).env("PGTARGETSESSIONATTRS", kind);
        assert_lists(preferring("standby"), Some(backend));
        assert_lists(preferring("prefer-standby"), Some(backend));
        assert_lists(preferring("primary"), None);
        assert_lists(on_both(&ports), None);
    }
}

#[test]
fn nothing_is_said_of_the_primarys_locks_on_a_standby() {
    let (_, standby) = pair();
    for words in [
        &["list", "-q", "unknown"][..],
        &["release", "--force", "unknown"],
        &["release", "--dry-run", "unknown"],
    ] {
        let finished = on(standby).args(words).run();
        assert_unfit(&finished, "this server is a standby");
        finished.assert_stderr_has("connect to the primary");
    }
}

/// How a lock is asked for, and the function that gives it.
const FORMS: [(&[&str], &str); 4] = [
    (&["form"], "pg_try_advisory_lock(bigint)"),
    (&["-N", "space", "form"], "pg_try_advisory_lock(int, int)"),
    (&["-s", "form"], "pg_try_advisory_lock_shared(bigint)"),
    (
        &["-s", "-N", "space", "form"],
        "pg_try_advisory_lock_shared(int, int)",
    ),
];

#[test]
fn functions_that_only_look_like_locks_are_refused() {
    let look_alikes = [
        "LANGUAGE sql AS 'SELECT true'",
        "LANGUAGE plpgsql AS 'BEGIN RETURN true; END'",
        "LANGUAGE internal AS 'int4eq'",
    ];
    for (form, function) in FORMS {
        for look_alike in look_alikes {
            let database = with_function(function, look_alike);
            for verb in VERBS {
                let finished = job(&database, verb, form);
                assert_unfit(&finished, "advisory locks are not PostgreSQL's own");
            }
            assert_nothing_held(&database);
        }
    }
}

#[test]
fn a_lock_that_cannot_be_given_back_is_refused() {
    for (form, function) in FORMS {
        let unlock = function.replace("_try_advisory_lock", "_advisory_unlock");
        let database = with_function(&unlock, "LANGUAGE sql AS 'SELECT false'");
        for verb in VERBS {
            let finished = job(&database, verb, form);
            assert_unfit(&finished, "advisory locks are not PostgreSQL's own");
            assert_nothing_held(&database);
        }
    }
}

#[test]
fn a_role_that_may_not_lock_is_told_so() {
    let server = Server::shared();
    let role = server.role("");
    for (form, function) in FORMS {
        let unlock = function.replace("_try_advisory_lock", "_advisory_unlock");
        for function in [function, &unlock] {
            let database = server.database();
            let revoke = format!("REVOKE EXECUTE ON FUNCTION pg_catalog.{function} FROM PUBLIC");
            let mut client = server.client_as(&database, "postgres");
            client.batch_execute(&revoke).unwrap();
            drop(client);
            for verb in VERBS {
                let pglock = Pglock::new(server)
                    .env("PGDATABASE", &database)
                    .env("PGUSER", &role);
                let finished = pglock.arg(verb).args(form).args(["echo", "ran"]).run();
                let name = function.split('(').next().unwrap();
                finished
                    .assert_code(120)
                    .assert_stdout("")
                    .assert_one_message()
                    .assert_stderr_has(&format!("permission denied for function {name}"));
            }
            assert_nothing_held(&database);
        }
    }
}

#[test]
fn a_server_without_such_functions_is_refused() {
    let answers = [
        (error("0A000", "not here"), "no advisory locks: not here"),
        (
            error("42883", "what is that"),
            "no advisory locks: what is that",
        ),
        (
            message(b'C', b"SELECT 0\0"),
            "advisory locks are not PostgreSQL's own",
        ),
    ];
    for (answer, complaint) in answers {
        for verb in VERBS {
            assert_unfit(&on_a_server_that_answers(&answer, verb), complaint);
        }
    }
}

/// A primary and its standby, of this test process.
fn pair() -> &'static (Server, Standby) {
    static PAIR: OnceLock<(Server, Standby)> = OnceLock::new();
    PAIR.get_or_init(|| {
        let primary = Server::start();
        let standby = Standby::of(&primary);
        (primary, standby)
    })
}

fn on(standby: &Standby) -> Pglock {
    Pglock::without_server().envs(standby.env())
}

/// The ports of primary and standby, and of standby and primary.
fn both_orders() -> [String; 2] {
    let (primary, standby) = pair();
    let (primary, standby) = (primary.port(), standby.port());
    [
        format!("{primary},{standby}"),
        format!("{standby},{primary}"),
    ]
}

/// pglock that is led to both servers, over TCP.
fn on_both(ports: &str) -> Pglock {
    let (primary, standby) = pair();
    let hosts = [primary.host(), standby.host()].join(",");
    Pglock::new(primary)
        .env("PGHOST", hosts)
        .env("PGPORT", ports)
}

/// Asserts that `list` shows the lock 4711, of this backend, or does not show it.
#[track_caller]
fn assert_lists(pglock: Pglock, backend: Option<i32>) {
    let list = pglock.args(["list", "--raw", "4711", "--json"]).run();
    list.assert_code(0);
    // Only a standby has one here.
    if backend.is_some() {
        list.assert_one_message().assert_stderr_has(
            "pglock: this server is a standby: the locks of the primary are not shown\n",
        );
    } else {
        list.assert_stderr("");
    }
    let locks: serde_json::Value = serde_json::from_str(&list.stdout).unwrap();
    let pids: Vec<Option<i64>> = locks
        .as_array()
        .unwrap()
        .iter()
        .map(|lock| lock["pid"].as_i64())
        .collect();
    let expected: Vec<_> = backend.map(|pid| Some(pid.into())).into_iter().collect();
    list.assert(pids == expected, &format!("backends {expected:?}"));
}

/// A new database in which this function of `pg_catalog` is another.
#[track_caller]
fn with_function(function: &str, definition: &str) -> String {
    let server = Server::shared();
    let database = server.database();
    let statements = format!(
        "SET allow_system_table_mods = on;
         CREATE OR REPLACE FUNCTION pg_catalog.{function} RETURNS boolean {definition}"
    );
    let mut client = server.client_as(&database, "postgres");
    client.batch_execute(&statements).unwrap();
    database
}

#[track_caller]
fn job(database: &str, verb: &str, form: &[&str]) -> Finished {
    let pglock = Pglock::new(Server::shared()).env("PGDATABASE", database);
    pglock.arg(verb).args(form).args(["echo", "ran"]).run()
}

/// Asserts that no session has an advisory lock in the database, once pglock's own are gone.
#[track_caller]
fn assert_nothing_held(database: &str) {
    let mut client = Server::shared().client_as(database, "postgres");
    crate::support::await_solitude(&mut client);
    let held = "SELECT FROM pg_locks WHERE locktype = 'advisory' AND database = \
        (SELECT oid FROM pg_database WHERE datname = current_database())";
    assert!(client.query(held, &[]).unwrap().is_empty());
}

#[track_caller]
fn assert_unfit(finished: &Finished, complaint: &str) {
    finished
        .assert_code(122)
        .assert_stdout("")
        .assert_one_message()
        .assert_stderr_has(complaint);
}

#[track_caller]
fn assert_no_session(finished: &Finished, complaint: &str) {
    finished
        .assert_code(121)
        .assert_stdout("")
        .assert_one_message()
        .assert_stderr_has(complaint);
}

/// Runs pglock on a listener that lets everybody in, and has one answer to all statements.
#[track_caller]
fn on_a_server_that_answers(answer: &[u8], verb: &str) -> Finished {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let answer = answer.to_owned();
    let server = thread::spawn(move || serve(&mut listener.accept().unwrap().0, &answer));
    let finished = Pglock::without_server()
        .env("PGHOST", "127.0.0.1")
        .env("PGPORT", port.to_string())
        .env("PGUSER", "anybody")
        .env("PGSSLMODE", "disable")
        .args([verb, "fake", "echo", "ran"])
        .run();
    let asked = server.join().unwrap();
    finished.assert(asked.contains("pg_try_advisory_lock"), "the lock statement");
    finished
}
