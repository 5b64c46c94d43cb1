//! `pglock check`: what it finds on every kind of connection, and that it never disagrees with `run`.

use std::fs;
use std::net::TcpListener;
use std::thread;

use nix::sys::signal::Signal;
use serde_json::Value;

use crate::support::look_alike::{error, serve};
use crate::support::{
    Authorities, Finished, Pglock, PoolMode, Pooler, Proxy, Server, Shutdown, Site, Standby,
    await_solitude,
};

const SCOPES: [&str; 2] = ["session", "transaction"];

/// The subjects, in the order in which they are shown.
const SUBJECTS: [&str; 11] = [
    "fit",
    "server",
    "connection",
    "session",
    "pooler",
    "TLS",
    "lock",
    "defaults",
    "dead host",
    "rights",
    "free",
];

#[test]
fn a_unix_socket_is_fit() {
    let server = Server::shared();
    let finished = check(Pglock::new(server), &[]);
    finished.assert_code(0).assert_stderr("");
    assert_eq!(subjects(&finished), SUBJECTS);
    let socket = server.socket_dir().display().to_string();
    let port = server.port();
    for (subject, found) in [
        ("fit", "yes"),
        ("pooler", "none seen"),
        ("TLS", "off (Unix socket)"),
        ("lock", "taken, seen and freed"),
        ("defaults", "none that would hurt"),
        ("dead host", "not needed on a Unix socket"),
        ("rights", "superuser: may see and end every session"),
    ] {
        assert_found(&finished, subject, found);
    }
    assert_found(
        &finished,
        "connection",
        &format!("Unix socket in {socket}, port {port}"),
    );
    assert!(found(&finished, "server").ends_with(", a primary"));
    assert!(found(&finished, "session").starts_with("database postgres, role postgres, backend "));
}

#[test]
fn over_tcp_the_server_watches_for_a_dead_host() {
    let server = Server::shared();
    for (lease, scope) in [("30s", "session"), ("10s", "transaction")] {
        let tcp = Pglock::new(server).env("PGHOST", server.host());
        let finished = check(tcp, &["--lease", lease, "--scope", scope]);
        finished.assert_code(0).assert_stderr("");
        let (host, port) = (server.host(), server.port());
        assert_found(&finished, "connection", &format!("{host} port {port}"));
        assert_found(&finished, "TLS", "off (sslmode=prefer)");
        let settings = match lease {
            "30s" => "tcp_keepalives_idle=11, _interval=3, _count=7, tcp_user_timeout=31000",
            _ => "tcp_keepalives_idle=4, _interval=1, _count=8, tcp_user_timeout=11000",
        };
        let wanted = format!("found out within the lease of {lease} ({settings})");
        assert_found(&finished, "dead host", &wanted);
    }
}

#[test]
fn on_a_terminal_it_keeps_to_80_columns() {
    let server = Server::shared();
    let database = server.database();
    let role = server.role("");
    server.execute(&format!(
        "ALTER ROLE {role} SET default_transaction_isolation = 'repeatable read'"
    ));
    server.execute(&format!("ALTER ROLE {role} SET statement_timeout = '90s'"));
    let pglock = Pglock::new(server)
        .env("PGHOST", server.host())
        .env("PGUSER", role)
        .env("PGDATABASE", database);
    let finished = pglock.arg("check").on_terminal().wait();
    finished
        .assert_code(0)
        .assert_stdout_has("GRANT pg_read_all_stats, pg_signal_backend TO ");
    for line in finished.stdout.lines() {
        let width = line.trim_end().chars().count();
        finished.assert(width <= 80, &format!("at most 80 columns in {line:?}"));
    }
}

#[test]
fn the_keys_of_the_object_are_a_promise() {
    let server = Server::shared();
    let object = object(Pglock::new(server), &[]);
    let parts = [
        (
            &object,
            "connection connections dead_host_detection exit_status fit keepalive lease_seconds lock pooling reason rights \
             scope server server_tls settings",
        ),
        (
            &object["connection"],
            "certificate encrypted host port sslmode transport",
        ),
        (
            &object["server"],
            "address backend_pid database port product standby user version",
        ),
        (&object["server_tls"], "cipher encrypted protocol"),
        (&object["lock"], "freed key name seen taken"),
        (
            &object["keepalive"],
            "tcp_keepalives_count tcp_keepalives_idle tcp_keepalives_interval tcp_user_timeout",
        ),
        (
            &object["rights"],
            "grant may_end_others may_see_others superuser",
        ),
        (
            &object["connections"],
            "database_in_use database_limit free in_use max reserved role_in_use role_limit",
        ),
    ];
    for (part, keys) in parts {
        assert_eq!(keys_of(part), keys);
    }
    assert_eq!(object["fit"], true);
    assert_eq!(object["reason"], Value::Null);
    assert_eq!(object["exit_status"], 0);
    assert_eq!(object["scope"], "session");
    assert_eq!(object["lease_seconds"], 30.0);
    assert_eq!(object["pooling"], "none");
    assert_eq!(object["dead_host_detection"], "not_needed");
    assert_eq!(object["connection"]["transport"], "unix");
    assert_eq!(object["server"]["standby"], false);
    assert_eq!(object["settings"], Value::Array(vec![]));
    let lock = &object["lock"];
    assert!(lock["name"].as_str().unwrap().starts_with("pglock check "));
    for step in ["taken", "seen", "freed"] {
        assert_eq!(lock[step], true, "{step}");
    }
}

#[test]
fn a_namespace_gives_the_lock_the_form_that_run_would_use() {
    let pglock = Pglock::new(Server::shared()).env("PGLOCK_NAMESPACE", "space");
    let object = object(pglock, &[]);
    assert!(object["lock"]["key"].as_str().unwrap().contains(','));
}

#[test]
fn tls_is_told_with_what_was_verified() {
    let authorities = Authorities::found();
    let server = Server::start();
    authorities.certify("ca", "checked", "server", "DNS:localhost", 2);
    authorities.equip(&server, "checked");
    let root = authorities.file("ca.crt");
    let at = |mode: &str, with_root: bool| {
        let conninfo = format!(
            "host=localhost hostaddr={} port={} user=keeper dbname=postgres sslmode={mode}",
            server.host(),
            server.port()
        );
        let pglock = Pglock::new(&server).args(["-d", &conninfo]);
        if with_root {
            pglock.env("PGSSLROOTCERT", &root)
        } else {
            pglock
        }
    };
    let signed = "certificate signed by a trusted authority, host name not compared";
    for (mode, with_root, certificate, verified) in [
        ("require", false, "certificate not verified", "nothing"),
        ("prefer", false, "certificate not verified", "nothing"),
        ("require", true, signed, "signature"),
        ("verify-ca", true, signed, "signature"),
        (
            "verify-full",
            true,
            "certificate verified, and for this host",
            "signature_and_host",
        ),
    ] {
        let finished = check(at(mode, with_root), &[]);
        finished.assert_code(0).assert_stderr("");
        let tls = found(&finished, "TLS");
        assert!(tls.starts_with("TLSv1.3 TLS_"), "{tls}");
        let end = format!("; {certificate} (sslmode={mode})");
        assert!(tls.ends_with(&end), "{tls}");

        let object = object(at(mode, with_root), &[]);
        assert_eq!(object["connection"]["encrypted"], true);
        assert_eq!(object["connection"]["sslmode"], mode);
        assert_eq!(object["connection"]["certificate"], verified);
        assert_eq!(object["server_tls"]["protocol"], "TLSv1.3");
    }
    let object = object(at("disable", true), &[]);
    assert_eq!(object["connection"]["encrypted"], false);
    assert_eq!(object["connection"]["certificate"], Value::Null);
    assert_eq!(object["server_tls"]["encrypted"], false);

    let named = check(at("require", false), &[]);
    let (address, port) = (server.host(), server.port());
    let wanted = format!("localhost port {port} ({address})");
    assert_found(&named, "connection", &wanted);

    let refused = check(
        at("verify-full", false).env("PGSSLROOTCERT", "/nonexistent/root.crt"),
        &[],
    );
    refused
        .assert_code(121)
        .assert_stdout("")
        .assert_one_message();
}

#[test]
fn a_transaction_pooler_is_fit_for_transactions_only() {
    for size in [1, 5] {
        let site = Site::new(PoolMode::Transaction, size, &[]);
        let refused = check(site.pooled(), &[]);
        refused
            .assert_code(122)
            .assert_one_message()
            .assert_stderr_has(
                "a pooler gives the statements of this session to different backends",
            )
            .assert_stderr_has("--scope transaction");
        assert_eq!(subjects(&refused), SUBJECTS);
        let reason = refused.stderr.trim_end().strip_prefix("pglock: ").unwrap();
        assert_found(&refused, "fit", &format!("no: {reason}"));
        assert_found(&refused, "lock", "not taken");

        let fit = check(site.pooled(), &["--scope", "transaction"]);
        fit.assert_code(0).assert_stderr("");
        assert_found(&fit, "fit", "yes, with --scope transaction");
        for finished in [refused, fit] {
            let transaction = "transaction pooling: a backend is lent for a transaction";
            assert_found(&finished, "pooler", transaction);
            let reach = "reaches only the link between pooler and server";
            assert_found(&finished, "dead host", reach);
            assert_found(
                &finished,
                "TLS",
                "off (Unix socket); from pooler to server off",
            );
        }
        site.assert_untouched();
    }
}

#[test]
fn a_statement_pooler_is_fit_for_nothing() {
    let site = Site::new(PoolMode::Statement, 2, &[]);
    for scope in SCOPES {
        let refused = check(site.pooled(), &["--scope", scope, "--json"]);
        refused
            .assert_code(122)
            .assert_one_message()
            .assert_stderr_has("connect to the server itself");
        let object = json(&refused);
        assert_eq!(object["fit"], false);
        assert_eq!(object["exit_status"], 122);
        assert_eq!(object["pooling"], "statement");
        assert_eq!(object["lock"]["taken"], false);
    }
    site.assert_untouched();
}

#[test]
fn a_session_pooler_is_fit() {
    let site = Site::new(PoolMode::Session, 5, &[]);
    for scope in SCOPES {
        let object = object(site.pooled(), &["--scope", scope]);
        assert_eq!(object["fit"], true);
        assert_eq!(object["pooling"], "session");
        assert_eq!(object["dead_host_detection"], "pooler_only");
    }
}

#[test]
fn a_session_pooler_with_no_backend_to_compare_cannot_be_told() {
    let site = Site::new(PoolMode::Session, 1, &[]);
    let refused = check(site.pooled(), &[]);
    refused
        .assert_code(122)
        .assert_one_message()
        .assert_stderr_has("has no second backend free");
    assert!(found(&refused, "pooler").contains("cannot be told"));
}

#[test]
fn pgpool_keeps_a_backend_for_each_session() {
    let server = Server::shared();
    let pooler = Pooler::pgpool(server);
    let object = object(Pglock::new(server).envs(pooler.env()), &[]);
    assert_eq!(object["fit"], true);
    assert!(["none", "session"].contains(&object["pooling"].as_str().unwrap()));
}

#[test]
fn a_standby_is_shown_and_refused() {
    let primary = Server::start();
    let standby = Standby::of(&primary);
    let refused = check(Pglock::without_server().envs(standby.env()), &[]);
    refused
        .assert_code(122)
        .assert_one_message()
        .assert_stderr_has("this server is a standby");
    assert!(found(&refused, "server").ends_with(", a standby"));
    assert_found(&refused, "pooler", "none seen");
    assert_found(&refused, "lock", "not taken");
    let log = standby.log();
    assert!(!log.contains(" ERROR: "), "{log}");
}

#[test]
fn questions_that_a_look_alike_refuses_stay_open() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    // One session tries the lock, another asks.
    thread::spawn(move || {
        for _ in 0..2 {
            serve(
                &mut listener.accept().unwrap().0,
                &error("0A000", "not here"),
            );
        }
    });
    let pglock = Pglock::without_server()
        .env("PGHOST", "127.0.0.1")
        .env("PGPORT", &port)
        .env("PGUSER", "anybody")
        .env("PGSSLMODE", "disable");
    let refused = check(pglock, &[]);
    refused
        .assert_code(122)
        .assert_one_message()
        .assert_stderr_has("this server has no advisory locks: not here");
    assert_eq!(subjects(&refused), SUBJECTS);
    assert_found(&refused, "connection", &format!("127.0.0.1 port {port}"));
    assert_found(&refused, "server", "unknown");
    assert_found(&refused, "pooler", "unknown");
    assert_found(&refused, "lock", "not taken");
}

#[test]
fn an_unprivileged_role_is_told_what_it_lacks() {
    let server = Server::shared();
    let database = server.database();
    let role = server.role("CONNECTION LIMIT 1");
    let finished = |more: &[&str]| {
        let pglock = Pglock::new(server)
            .env("PGUSER", &role)
            .env("PGDATABASE", &database);
        check(pglock, more)
    };
    for scope in SCOPES {
        let finished = finished(&["--scope", scope]);
        finished.assert_code(0).assert_stderr("");
        assert_found(
            &finished,
            "rights",
            "may see and end the sessions of this role",
        );
        let grant = format!("GRANT pg_read_all_stats, pg_signal_backend TO {role}");
        assert_found(&finished, "more rights", &grant);
        let free = found(&finished, "free");
        assert!(free.starts_with("0 connections of 200 ("), "{free}");
        assert!(free.ends_with("; the role has 1 of 1)"), "{free}");
        await_solitude(&mut server.client_as(&database, "postgres"));
    }
    server.execute(&format!("GRANT pg_monitor, pg_signal_backend TO {role}"));
    server.execute(&format!("ALTER ROLE {role} CONNECTION LIMIT -1"));
    server.execute(&format!("ALTER DATABASE {database} CONNECTION LIMIT 3"));
    let object = json(&finished(&["--json"]));
    let rights = &object["rights"];
    assert_eq!(rights["superuser"], false);
    assert_eq!(rights["may_see_others"], true);
    assert_eq!(rights["may_end_others"], true);
    assert_eq!(rights["grant"], Value::Null);
    let connections = &object["connections"];
    assert_eq!(connections["role_limit"], Value::Null);
    assert_eq!(connections["database_limit"], 3);
    // The client that looked may not have gone yet.
    let in_use = connections["database_in_use"].as_i64().unwrap();
    assert_eq!(connections["free"], 3 - in_use);
}

#[test]
fn defaults_that_would_hurt_are_shown_with_their_values() {
    let server = Server::shared();
    let database = server.database();
    let role = server.role("");
    for (setting, value) in [
        ("statement_timeout", "1500ms"),
        ("lock_timeout", "2s"),
        ("idle_in_transaction_session_timeout", "3s"),
        ("default_transaction_isolation", "serializable"),
    ] {
        server.execute(&format!("ALTER ROLE {role} SET {setting} = '{value}'"));
    }
    for scope in SCOPES {
        let pglock = Pglock::new(server)
            .env("PGUSER", &role)
            .env("PGDATABASE", &database);
        let finished = check(pglock, &["--scope", scope]);
        finished.assert_code(0).assert_stderr("");
        assert_found(
            &finished,
            "defaults",
            "default_transaction_isolation=serializable, idle_in_transaction_session_timeout=3s, lock_timeout=2s, \
             statement_timeout=1s500ms; pglock is not subject to them",
        );
    }
}

#[test]
fn text_from_elsewhere_stays_on_its_line() {
    let server = Server::shared();
    server.execute("CREATE ROLE \"a\x1b[2J\nb\" LOGIN");
    for (arguments, shown) in [
        (&[][..], "role a\\u{1b}[2J\\nb,"),
        (&["--json"], "\"user\": \"a\\u001b[2J\\nb\""),
    ] {
        let finished = check(Pglock::new(server).env("PGUSER", "a\x1b[2J\nb"), arguments);
        finished.assert_code(0).assert_stdout_has(shown);
        finished.assert(!finished.stdout.contains('\x1b'), "no control characters");
    }
}

#[test]
fn without_a_connection_only_json_has_something_to_say() {
    let server = Server::start();
    server.stop(Shutdown::Fast);
    let at = |arguments: &[&str]| check(Pglock::new(&server), arguments);
    at(&[])
        .assert_code(121)
        .assert_stdout("")
        .assert_one_message();
    let refused = at(&["--json"]);
    refused.assert_code(121).assert_one_message();
    let object = json(&refused);
    assert_eq!(object["fit"], false);
    assert_eq!(object["exit_status"], 121);
    let reason = object["reason"].as_str().unwrap();
    refused.assert_stderr(&format!("pglock: {reason}\n"));
    for unknown in ["connection", "server", "pooling", "rights", "settings"] {
        assert_eq!(object[unknown], Value::Null, "{unknown}");
    }
}

#[test]
fn usage_errors_come_before_any_connection() {
    for arguments in [
        &["--lease", "1s"][..],
        &["--lease", "soon"],
        &["--scope", "statement"],
        &["name"],
    ] {
        check(Pglock::without_server(), &[&["--json"], arguments].concat())
            .assert_code(125)
            .assert_stdout("")
            .assert_one_message();
    }
}

#[test]
fn a_signal_ends_it() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    let pglock = Pglock::without_server().args(["check", "--json", "-h", "127.0.0.1", "-p", &port]);
    let mut running = pglock.spawn();
    let _silent = listener.accept().unwrap();
    running.signal(Signal::SIGTERM);
    running.wait().assert_code(143).assert_silent();
}

#[test]
fn it_leaves_neither_a_lock_nor_a_line_in_the_log() {
    let server = Server::start();
    let role = server.role("");
    let pooler = Pooler::start(&server, PoolMode::Transaction, 5, &[]);
    let tcp = vec![("PGHOST", server.host().to_owned()), ("PGUSER", role)];
    for environment in [vec![], tcp, pooler.env().to_vec()] {
        for scope in SCOPES {
            let pglock = Pglock::new(&server).envs(environment.clone());
            check(pglock, &["--scope", scope]).assert_stdout_has("lock:");
        }
    }
    drop(pooler);
    let mut client = server.client();
    await_solitude(&mut client);
    let locks = "SELECT FROM pg_locks WHERE locktype = 'advisory'";
    assert!(client.query(locks, &[]).unwrap().is_empty());
    drop(client);
    server.stop(Shutdown::Smart);
    assert_eq!(server.log_lines_at_or_above_warning(), [""; 0]);
}

#[test]
fn it_ends_as_run_does_and_says_the_same() {
    let server = Server::shared();
    let own = |options: &str| Pglock::new(server).env("PGUSER", server.role(options));
    let forbidden = server.database();
    let mut client = server.client_as(&forbidden, "postgres");
    client
        .batch_execute("REVOKE EXECUTE ON FUNCTION pg_try_advisory_lock(bigint) FROM PUBLIC")
        .unwrap();
    let imitated = server.database();
    let mut client = server.client_as(&imitated, "postgres");
    let look_alike = "SET allow_system_table_mods = on; \
         CREATE OR REPLACE FUNCTION pg_catalog.pg_try_advisory_lock(bigint) RETURNS boolean LANGUAGE sql AS 'SELECT true'";
    client.batch_execute(look_alike).unwrap();
    drop(client);
    let [transaction, statement, session, single] = [
        (PoolMode::Transaction, 3),
        (PoolMode::Statement, 3),
        (PoolMode::Session, 3),
        (PoolMode::Session, 1),
    ]
    .map(|(mode, size)| Site::new(mode, size, &[]));
    let guarded = guarded_server();
    let primary = Server::start();
    let standby = Standby::of(&primary);
    let with_password = |password: &str| {
        Pglock::new(&guarded)
            .env("PGUSER", "alice")
            .env("PGPASSWORD", password)
    };
    let kinds: [Kind; 14] = [
        ("socket", &|| Pglock::new(server), [0, 0]),
        (
            "TCP",
            &|| Pglock::new(server).env("PGHOST", server.host()),
            [0, 0],
        ),
        ("unprivileged", &|| own(""), [0, 0]),
        (
            "no connection left",
            &|| own("CONNECTION LIMIT 0"),
            [121, 121],
        ),
        (
            "forbidden",
            &|| own("").env("PGDATABASE", &forbidden),
            [120, 0],
        ),
        (
            "look-alike",
            &|| Pglock::new(server).env("PGDATABASE", &imitated),
            [122, 0],
        ),
        ("transaction pooler", &|| transaction.pooled(), [122, 0]),
        ("statement pooler", &|| statement.pooled(), [122, 122]),
        ("session pooler", &|| session.pooled(), [0, 0]),
        ("session pooler of one", &|| single.pooled(), [122, 0]),
        (
            "standby",
            &|| Pglock::without_server().envs(standby.env()),
            [122, 122],
        ),
        ("right password", &|| with_password("right"), [0, 0]),
        ("wrong password", &|| with_password("wrong"), [121, 121]),
        (
            "no server",
            &|| Pglock::without_server().env("PGHOST", "/nonexistent"),
            [121, 121],
        ),
    ];
    for (kind, pglock, codes) in kinds {
        for (scope, code) in SCOPES.into_iter().zip(codes) {
            let run = pglock().args(["run", "-n", "--scope", scope, "as-run", "true"]);
            let run = run.run();
            let checked = check(pglock(), &["--scope", scope]);
            run.assert_code(code).assert_stdout("");
            checked.assert_code(code);
            assert_eq!(without_role(&checked), without_role(&run), "{kind}");
        }
    }
}

/// What is connected to and how, and what `run` ends with in either scope.
type Kind<'a> = (&'a str, &'a dyn Fn() -> Pglock, [i32; 2]);

/// A server that asks alice for her password.
fn guarded_server() -> Server {
    let server = Server::with(&["password_encryption = 'scram-sha-256'"]);
    server.execute("CREATE ROLE alice LOGIN PASSWORD 'right'");
    let rules = "local all postgres trust\nlocal all all scram-sha-256\n";
    fs::write(server.data_dir().join("pg_hba.conf"), rules).unwrap();
    server.stop(Shutdown::Fast);
    server.start_again();
    server
}

#[track_caller]
fn check(pglock: Pglock, options: &[&str]) -> Finished {
    pglock.arg("check").args(options).run()
}

/// The object that it gives.
#[track_caller]
fn object(pglock: Pglock, options: &[&str]) -> Value {
    json(&check(pglock, &[&["--json"], options].concat()))
}

/// What was found on a subject.
#[track_caller]
fn found(finished: &Finished, subject: &str) -> String {
    let start = format!("{subject}:");
    let lines = finished.stdout.lines();
    let found: Vec<&str> = lines.filter_map(|line| line.strip_prefix(&start)).collect();
    finished.assert(found.len() == 1, &format!("one line on {subject}"));
    found[0].trim().to_owned()
}

#[track_caller]
fn assert_found(finished: &Finished, subject: &str, wanted: &str) {
    finished.assert(
        found(finished, subject) == wanted,
        &format!("{subject}: {wanted}"),
    );
}

fn subjects(finished: &Finished) -> Vec<&str> {
    let lines = finished.stdout.lines();
    lines
        .filter_map(|line| Some(line.split_once(':')?.0))
        .collect()
}

#[track_caller]
fn json(finished: &Finished) -> Value {
    let object = serde_json::from_str(&finished.stdout);
    object.unwrap_or_else(|error| panic!("{error} in\n{finished:?}"))
}

/// The keys of an object, in alphabetical order.
#[track_caller]
fn keys_of(object: &Value) -> String {
    let mut keys: Vec<&str> = object
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect();
    keys.sort_unstable();
    keys.join(" ")
}

/// The messages, without the name of a role that another call does not have.
fn without_role(finished: &Finished) -> String {
    let words = finished.stderr.split(' ');
    let words = words.filter(|word| !word.starts_with("\"role_"));
    words.collect::<Vec<_>>().join(" ")
}

#[test]
fn a_connection_that_ends_between_two_questions_was_a_panic() {
    let server = Server::shared();
    for flights in 1..12 {
        let proxy = Proxy::cutting_after(server, flights);
        for words in [
            &["check"][..],
            &["check", "--json", "--scope", "transaction"],
        ] {
            let checked = Pglock::new(server)
                .envs(proxy.env())
                .env("PGSSLMODE", "disable")
                .args(words)
                .run();
            let code = checked.code.expect("an exit of its own");
            let is_told = [0, 121, 123].contains(&code);
            checked.assert(is_told, "a status of pglock's");
        }
    }
}
