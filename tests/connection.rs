//! Where and how pglock connects: as psql does, whichever verb is called.

use std::fs::{self};
use std::net::TcpListener;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::support::{Finished, Pglock, Running, Server};

const SECRET: &str = "s3cret-p4ss/w@rd";
/// The same in a URI.
const SECRET_ENCODED: &str = "s3cret-p4ss%2Fw%40rd";

/// Options and variables that say where to connect.
type Way<'a> = (&'a [&'a str], &'a [(&'a str, &'a str)]);

#[test]
fn options_win_over_pglock_url_over_variables_over_database_url() {
    let server = Server::shared();
    let (typed, url, variable, fallback) = (
        server.database(),
        server.database(),
        server.database(),
        server.database(),
    );
    let (url_uri, fallback_uri, typed_uri) = (uri(&url), uri(&fallback), uri(&typed));
    let by_url = ("PGLOCK_URL", url_uri.as_str());
    let by_variable = ("PGDATABASE", variable.as_str());
    let by_fallback = ("DATABASE_URL", fallback_uri.as_str());
    let cases: [(Way, &str); 7] = [
        (
            (&["-d", &typed], &[by_url, by_variable, by_fallback]),
            &typed,
        ),
        ((&["-d", &typed_uri], &[by_url]), &typed),
        ((&["-d", &typed], &[by_fallback]), &typed),
        ((&[], &[by_url, by_variable, by_fallback]), &url),
        ((&[], &[by_url, by_fallback]), &url),
        ((&[], &[by_variable, by_fallback]), &variable),
        ((&[], &[by_fallback]), &fallback),
    ];
    for ((options, variables), database) in cases {
        // The bare name of a database says nothing of the server.
        let only_named = options == ["-d", &typed] || variables.contains(&by_variable);
        let base = if only_named {
            Pglock::new(server).env_remove("PGDATABASE")
        } else {
            nowhere()
        };
        let reached = reached(base.envs(variables.iter().copied()), options, &[]);
        assert_eq!(reached.database, database, "{options:?} {variables:?}");
    }
}

#[test]
fn database_url_counts_only_if_nothing_else_says_where() {
    let server = Server::shared();
    let database = server.database();
    let role = server.role("");
    let by_fallback = || nowhere().env("DATABASE_URL", uri(&database));
    // A user is not a place.
    let as_role = format!("postgresql://{}/{database}", authority(None));
    let pglock = nowhere().env("DATABASE_URL", as_role).env("PGUSER", &role);
    let there = reached(pglock, &[], &[]);
    assert_eq!([&there.database, &there.user], [&database, &role]);

    for (variable, place) in [("PGHOST", "/nonexistent"), ("PGPORT", "1")] {
        let refused = by_fallback().env(variable, place).arg("list").run();
        refused
            .assert_code(121)
            .assert_stdout("")
            .assert_one_message();
    }
    let refused = by_fallback().args(["list", "-h", "/nonexistent"]).run();
    refused
        .assert_code(121)
        .assert_one_message()
        .assert_stderr_has("/nonexistent");
}

#[test]
fn what_one_source_leaves_open_the_next_one_says() {
    let server = Server::shared();
    let (database, role) = (server.database(), server.role(""));
    let url = format!("postgresql://{}", authority(None));
    let pglock = nowhere()
        .env("PGLOCK_URL", url)
        .env("PGDATABASE", &database)
        .env("PGUSER", "nobody");
    let there = reached(pglock, &["-U", &role], &[]);
    assert_eq!([&there.database, &there.user], [&database, &role]);
}

#[test]
fn an_empty_variable_counts_as_unset() {
    let server = Server::shared();
    let database = server.database();
    let pglock = Pglock::new(server)
        .env("PGDATABASE", &database)
        .env("PGLOCK_URL", "")
        .env("DATABASE_URL", "")
        .env("PGSSLMODE", "")
        .env("PGCONNECT_TIMEOUT", "")
        .env("PGPASSWORD", "");
    assert_eq!(reached(pglock, &[], &[]).database, database);
}

#[test]
fn the_database_is_by_default_that_of_the_users_name() {
    let server = Server::shared();
    let role = server.role("");
    server.execute(&format!("CREATE DATABASE {role}"));
    let pglock = Pglock::new(server).env_remove("PGDATABASE");
    let there = reached(pglock, &["-U", &role], &[]);
    assert_eq!([&there.database, &there.user], [&role, &role]);
}

#[test]
fn dbname_is_a_name_a_uri_or_keywords_and_wins_over_the_other_options() {
    let server = Server::shared();
    let (database, role) = (server.database(), server.role(""));
    let (socket, port) = (socket(), server.port());
    let by_name = Pglock::new(server).env_remove("PGDATABASE");
    assert_eq!(reached(by_name, &["-d", &database], &[]).database, database);

    let host = server.host();
    for conninfo in [
        format!("postgresql://{role}@{host}:{port}/{database}"),
        format!("postgres://{host}:{port}/{database}?user={role}"),
        format!("postgresql:///{database}?host={socket}&port={port}&user={role}"),
        format!("host={socket} port={port} user={role} dbname={database}"),
        format!("dbname = '{database}'  host='{host}' port={port} user={role}"),
    ] {
        let option = format!("--dbname={conninfo}");
        let others = ["-h", "/nonexistent", "-p", "1", "-U", "nobody"];
        for there in [
            reached(nowhere(), &["-d", &conninfo], &[]),
            reached(nowhere(), &[&option], &others),
        ] {
            assert_eq!(
                [&there.database, &there.user],
                [&database, &role],
                "{conninfo}"
            );
        }
    }
}

#[test]
fn options_may_stand_before_and_after_the_subcommand() {
    let server = Server::shared();
    let (database, role) = (server.database(), server.role(""));
    let port = server.port().to_string();
    let options = [
        ["-h", server.host()],
        ["-p", &port],
        ["-U", &role],
        ["-d", &database],
    ];
    let long = [
        ["--host", server.host()],
        ["--port", &port],
        ["--username", &role],
        ["--dbname", &database],
    ];
    for options in [options, long] {
        for place in 0..=options.len() {
            let (before, after) = options.split_at(place);
            let there = reached(nowhere(), &before.concat(), &after.concat());
            assert_eq!([&there.database, &there.user], [&database, &role]);
            assert!(there.tcp);
        }
    }
}

#[test]
fn of_an_option_given_twice_the_last_one_counts() {
    let server = Server::shared();
    let (database, role) = (server.database(), server.role(""));
    let port = server.port().to_string();
    let before = [
        ["-h", "/nonexistent"],
        ["-p", "1"],
        ["-U", "nobody"],
        ["-d", "nosuch"],
    ];
    let after = [
        ["-h", server.host()],
        ["-p", &port],
        ["-U", &role],
        ["-d", &database],
    ];
    let all = [before.concat(), after.concat()];
    for (before, after) in [(all.concat(), vec![]), (vec![], all.concat())] {
        let there = reached(nowhere(), &before, &after);
        assert_eq!([&there.database, &there.user], [&database, &role]);
    }
    // The subcommand stands between.
    let there = reached(nowhere(), &all[0], &all[1]);
    assert_eq!([&there.database, &there.user], [&database, &role]);
}

#[test]
fn a_host_is_a_name_an_address_or_the_directory_of_a_socket() {
    let server = Server::shared();
    let (host, port) = (server.host(), server.port().to_string());
    let socket = socket();
    let encoded = socket.replace('/', "%2F");
    for (uri, tcp) in [
        (
            format!("postgresql://postgres@{host}:{port}/postgres"),
            true,
        ),
        (
            format!("postgresql://postgres@{encoded}:{port}/postgres"),
            false,
        ),
        (
            format!("postgresql://postgres@/postgres?host={socket}&port={port}"),
            false,
        ),
        (
            format!("postgresql://postgres@/postgres?host={encoded}&port={port}"),
            false,
        ),
        (
            format!("postgresql://postgres@nowhere.invalid:{port}/postgres?host={host}"),
            true,
        ),
        (
            format!(
                "hostaddr={host} host=nowhere.invalid port={port} user=postgres dbname=postgres"
            ),
            true,
        ),
    ] {
        assert_eq!(reached(nowhere(), &["-d", &uri], &[]).tcp, tcp, "{uri}");
    }
    let by_variables = |host: &str| Pglock::new(server).env("PGHOST", host);
    assert!(reached(by_variables(host), &[], &[]).tcp);
    assert!(!reached(by_variables(&socket), &[], &[]).tcp);
    assert!(!reached(by_variables(host), &["-h", &socket], &[]).tcp);
    let by_address = Pglock::new(server).env("PGHOSTADDR", host);
    assert!(reached(by_address, &[], &[]).tcp);
}

#[test]
fn of_several_hosts_the_first_that_answers_is_used() {
    let server = Server::shared();
    let (host, port, socket) = (server.host(), server.port(), socket());
    for place in [
        // Nobody listens on port 1; every list of ports pairs with the hosts.
        format!("host=127.0.0.1,{host} port=1,{port}"),
        format!("host=/nonexistent,{socket},127.0.0.1 port={port}"),
        format!("host=/nonexistent,127.0.0.1,{host} port={port},1,{port}"),
    ] {
        let conninfo = format!("{place} user=postgres dbname=postgres");
        reached(nowhere(), &["-d", &conninfo], &[]);
    }
    let uri = format!("postgresql://postgres@127.0.0.1:1,{host}:{port}/postgres");
    assert!(reached(nowhere().env("PGLOCK_URL", uri), &[], &[]).tcp);
    let by_variables = Pglock::new(server)
        .env("PGHOST", format!("/nonexistent,{host}"))
        .env("PGPORT", format!("1,{port}"));
    assert!(reached(by_variables, &[], &[]).tcp);

    let refused = nowhere().args(["list", "-h", "/nonexistent,127.0.0.1", "-p", "1"]);
    refused
        .run()
        .assert_code(121)
        .assert_stdout("")
        .assert_one_message()
        .assert_stderr_has("/nonexistent")
        .assert_stderr_has("127.0.0.1 port 1");
}

#[test]
fn all_verbs_reach_the_same_place() {
    let server = Server::shared();
    let database = server.database();
    let place = uri(&database);
    let (host, port) = (server.host(), server.port().to_string());
    let variables = [
        ("PGHOST", host),
        ("PGPORT", &port),
        ("PGUSER", "postgres"),
        ("PGDATABASE", &database),
    ];
    let ways: [Way; 5] = [
        (&["-d", &place], &[]),
        (
            &["-h", host, "-p", &port, "-U", "postgres", "-d", &database],
            &[],
        ),
        (&[], &[("PGLOCK_URL", &place)]),
        (&[], &variables),
        (&[], &[("DATABASE_URL", &place)]),
    ];
    for (options, variables) in ways {
        let name = unique_name();
        let pglock = || nowhere().envs(variables.iter().copied()).args(options);
        let holder = hold(pglock(), &name);
        assert_eq!(session(&name).unwrap().database, database);
        pglock()
            .args(["try", &name, "true"])
            .run()
            .assert_code(75)
            .assert_stdout("")
            .assert_one_message();
        pglock()
            .args(["list", "-q", &name])
            .run()
            .assert_code(0)
            .assert_silent();
        pglock()
            .args(["release", "-f", &name])
            .run()
            .assert_code(0)
            .assert_silent();
        holder.wait().assert_code(123).assert_stdout("ready\n");
    }
}

#[test]
fn a_password_comes_from_the_variable_or_the_connection_string() {
    let server = guarded();
    let place = format!("{}:{}", server.host(), server.port());
    let uri = |user: &str| format!("postgresql://{user}@{place}/postgres");
    let with_password = format!("guarded:{SECRET_ENCODED}");
    let keywords = format!(
        "host={} port={} user=guarded dbname=postgres password='{SECRET}'",
        server.host(),
        server.port()
    );
    let run = |conninfo: &str, variable: &str| {
        let pglock = patient().env("PGPASSWORD", variable);
        pglock
            .args(["run", "-d", conninfo, "password", "true"])
            .run()
    };
    for accepted in [
        run(&uri("guarded"), SECRET),
        run(&uri(&with_password), ""),
        run(&uri(&with_password), "the string wins"),
        run(&keywords, ""),
    ] {
        accepted.assert_code(0).assert_silent();
    }
    for refused in [
        run(&uri("guarded"), ""),
        run(&uri("guarded"), "wrong"),
        run(&uri("guarded:wrong"), SECRET),
    ] {
        assert_cannot_connect(&refused);
    }
}

#[test]
fn an_authentication_that_fails_ends_the_search_for_a_host() {
    let server = guarded();
    let (host, port) = (server.host(), server.port());
    let hosts = format!("host={host},{host} port={port} user=guarded dbname=postgres");
    let refused = patient()
        .env("PGPASSWORD", "wrong")
        .args(["list", "-d", &hosts])
        .run();
    assert_cannot_connect(&refused);
    let times = refused
        .stderr
        .matches(&format!("{host} port {port}"))
        .count();
    refused.assert(times == 1, "one attempt");
}

#[test]
fn sslmode_without_tls_on_the_server() {
    let server = Server::shared();
    for (mode, connects) in [("disable", true), ("prefer", true), ("require", false)] {
        let pglock = || Pglock::new(server).env("PGHOST", server.host());
        let by_variable = pglock().env("PGSSLMODE", mode);
        let by_uri = format!("postgresql://?sslmode={mode}");
        if connects {
            assert!(!reached(by_variable, &[], &[]).tls);
            assert!(!reached(pglock(), &["-d", &by_uri], &[]).tls);
        } else {
            assert_cannot_connect(&by_variable.arg("list").run());
            assert_cannot_connect(&pglock().args(["list", "-d", &by_uri]).run());
        }
        // A Unix socket never uses TLS and does not miss it.
        let on_socket = Pglock::new(server).env("PGSSLMODE", mode);
        assert!(!reached(on_socket, &[], &[]).tls);
    }
}

#[test]
fn sslmode_with_tls_on_the_server() {
    let server = guarded();
    for (mode, tls) in [
        (None, true),
        (Some("disable"), false),
        (Some("prefer"), true),
        (Some("require"), true),
    ] {
        let pglock = || Pglock::new(server).env("PGHOST", server.host());
        let by_variable = pglock().envs(mode.map(|mode| ("PGSSLMODE", mode)));
        assert_eq!(
            reached_on(server, by_variable, &[], &[]).tls,
            tls,
            "{mode:?}"
        );
        let by_uri = mode.map(|mode| format!("--dbname=postgresql://?sslmode={mode}"));
        let options: Vec<&str> = by_uri.iter().map(String::as_str).collect();
        let there = reached_on(server, pglock(), &options, &[]);
        assert_eq!(there.tls, tls, "{mode:?}");
    }
}

#[test]
fn a_malformed_place_is_a_usage_error_that_quotes_no_password() {
    let variables = [
        ("PGSSLMODE", "bogus"),
        ("PGPORT", "x"),
        ("PGPORT", "0"),
        ("PGPORT", "65536"),
        ("PGPORT", "-1"),
        ("PGPORT", "1,2"),
        ("PGCONNECT_TIMEOUT", "x"),
        ("PGCONNECT_TIMEOUT", "1s"),
        ("PGLOCK_URL", "s3cret"),
        ("PGLOCK_URL", "mysql://u:s3cret@h/db"),
        ("PGLOCK_URL", "postgresql://u:s3cret@h/%zz"),
        ("PGLOCK_URL", "postgresql://u:s3cret@[::1/db"),
        ("PGLOCK_URL", "postgresql://u:s3cret@h:port/db"),
        ("PGLOCK_URL", "postgresql://u:s3cret@h/db?bogus=1"),
        ("PGLOCK_URL", "postgresql://u:s3cret@h/db?connect_timeout=x"),
        ("PGLOCK_URL", "host=h password=s3 s3cret"),
        ("PGLOCK_URL", "password='s3cret"),
    ];
    for (variable, value) in variables {
        let run = |words: &[&str]| {
            let pglock = nowhere().env("PGHOST", "/nonexistent");
            pglock.env(variable, value).args(words).run()
        };
        for finished in [run(&["list"]), run(&["run", "-v", "x", "true"])] {
            assert_malformed(&finished);
        }
    }
    for conninfo in [
        "postgresql://u:s3cret@h/%zz",
        "host=h sslmode=bogus password=s3cret",
        "=s3cret",
    ] {
        let finished = nowhere().args(["release", "-f", "-d", conninfo, "x"]).run();
        assert_malformed(&finished);
    }
    for options in [["-p", "x"], ["-p", "65536"], ["-p", "1,2"]] {
        assert_malformed(&nowhere().arg("list").args(options).run());
    }
}

#[test]
fn a_server_that_does_not_answer_is_given_up_after_the_connect_timeout() {
    let silent = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = silent.local_addr().unwrap().port().to_string();
    let silence = || nowhere().env("PGHOST", "127.0.0.1").env("PGPORT", &port);
    // The upper bound is below the default of 10 s, and above what a busy machine adds.
    let given_up = |finished: &Finished, from: u64| {
        assert_cannot_connect(finished);
        let bounds = Duration::from_millis(from)..Duration::from_secs(6);
        finished.assert(
            bounds.contains(&finished.took),
            &format!("an end after {bounds:?}"),
        );
    };
    let by_variable = || silence().env("PGCONNECT_TIMEOUT", "1");
    let all = [
        by_variable().arg("list").spawn(),
        by_variable().args(["run", "x", "true"]).spawn(),
        by_variable().args(["try", "x", "true"]).spawn(),
        by_variable().args(["release", "-f", "x"]).spawn(),
        silence()
            .args(["list", "-d", "postgresql://?connect_timeout=1"])
            .spawn(),
    ];
    let wait = silence().args(["run", "-w", "500ms", "x", "true"]).spawn();
    given_up(&wait.wait(), 500);
    for running in all {
        given_up(&running.wait(), 1000);
    }
}

#[test]
fn a_refused_connection_and_a_missing_database_are_named() {
    let server = Server::shared();
    let refused = nowhere().args(["run", "-h", "127.0.0.1", "-p", "1", "x", "true"]);
    let refused = refused.run();
    assert_cannot_connect(&refused);
    refused.assert_stderr_has("127.0.0.1 port 1");

    for options in [["-d", "nosuchdatabase"], ["-U", "nosuchrole"]] {
        let refused = Pglock::new(server).arg("list").args(options).run();
        assert_cannot_connect(&refused);
        refused.assert_stderr_has(options[1]);
    }
}

/// The session that holds a lock.
struct Reached {
    database: String,
    user: String,
    tcp: bool,
    tls: bool,
}

/// Where pglock connects to with these options in front of the subcommand and behind it.
#[track_caller]
fn reached(pglock: Pglock, before: &[&str], after: &[&str]) -> Reached {
    reached_on(Server::shared(), pglock, before, after)
}

#[track_caller]
fn reached_on(server: &Server, pglock: Pglock, before: &[&str], after: &[&str]) -> Reached {
    let name = unique_name();
    let pglock = pglock.args(before).arg("run").args(after);
    let script = [name.as_str(), "sh", "-c", "echo ready; exec cat"];
    let mut holder = pglock.args(script).spawn();
    holder.wait_line("ready");
    let reached = session_on(server, &name);
    holder
        .let_go()
        .assert_code(0)
        .assert_stdout("ready\n")
        .assert_stderr("");
    reached.expect("the session is on that server")
}

#[track_caller]
fn hold(pglock: Pglock, name: &str) -> Running {
    let script = ["run", name, "sh", "-c", "echo ready; exec cat"];
    let mut holder = pglock.args(script).spawn();
    holder.wait_line("ready");
    holder
}

fn session(name: &str) -> Option<Reached> {
    session_on(Server::shared(), name)
}

/// The session of the holder of this name, as the server sees it.
fn session_on(server: &Server, name: &str) -> Option<Reached> {
    let sessions = "
        SELECT datname, usename, client_port > 0, ssl
        FROM pg_stat_activity JOIN pg_stat_ssl USING (pid)
        WHERE starts_with(application_name, $1)";
    let row = server
        .client()
        .query_opt(sessions, &[&format!("pglock: {name} (")]);
    row.unwrap().map(|row| Reached {
        database: row.get(0),
        user: row.get(1),
        tcp: row.get(2),
        tls: row.get(3),
    })
}

fn unique_name() -> String {
    static COUNT: AtomicU32 = AtomicU32::new(1);
    format!("place-{}", COUNT.fetch_add(1, Ordering::Relaxed))
}

/// pglock without a word on where to connect.
fn nowhere() -> Pglock {
    Pglock::without_server()
}

/// The same with time for the password's hash, which takes a busy machine longer than the default allows for.
fn patient() -> Pglock {
    nowhere().env("PGCONNECT_TIMEOUT", "60")
}

fn socket() -> String {
    Server::shared().socket_dir().to_str().unwrap().to_owned()
}

/// The shared server's TCP address in a URI.
fn authority(user: Option<&str>) -> String {
    let server = Server::shared();
    let user = user.map_or_else(String::new, |user| format!("{user}@"));
    format!("{user}{}:{}", server.host(), server.port())
}

fn uri(database: &str) -> String {
    format!("postgresql://{}/{database}", authority(Some("postgres")))
}

/// A server with TLS, where the role `guarded` needs a password on TCP.
fn guarded() -> &'static Server {
    static GUARDED: OnceLock<Server> = OnceLock::new();
    GUARDED.get_or_init(|| {
        let server = Server::with(&["password_encryption = 'scram-sha-256'"]);
        server.execute(&format!("CREATE ROLE guarded LOGIN PASSWORD '{SECRET}'"));
        let rules = server.data_dir().join("pg_hba.conf");
        let others = fs::read_to_string(&rules).unwrap();
        fs::write(
            &rules,
            format!("host all guarded all scram-sha-256\n{others}"),
        )
        .unwrap();
        server.restart_with_tls();
        server
    })
}

#[track_caller]
fn assert_cannot_connect(finished: &Finished) {
    finished
        .assert_code(121)
        .assert_stdout("")
        .assert_one_message()
        .assert_stderr_has("cannot connect");
}

#[track_caller]
fn assert_malformed(finished: &Finished) {
    finished
        .assert_code(125)
        .assert_stdout("")
        .assert_one_message()
        .assert(!finished.stderr.contains("s3cret"), "no password");
}
