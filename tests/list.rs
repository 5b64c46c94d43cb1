//! `pglock list`: everything that holds or waits, exactly once, as table, JSON and CSV.

use std::collections::BTreeSet;
use std::io::{Read, pipe};

use postgres::Client;
use serde_json::{Value, json};

use crate::support::{Finished, Pglock, Running, Server, Shutdown, Waiter, backend_pid, until};

/// The contract's keys, in the order that `--json` and `--format csv` give them in.
const KEYS: [&str; 23] = [
    "name",
    "namespace",
    "key",
    "form",
    "state",
    "mode",
    "database",
    "pid",
    "user",
    "host",
    "wrapper_pid",
    "client",
    "application_name",
    "backend_start",
    "since",
    "seconds",
    "command",
    "program",
    "blocked_by",
    "prepared",
    "slot",
    "slots",
    "scheme",
];

/// Names that some layer on their way could mistake for something else.
pub const ODD_NAMES: [&str; 12] = [
    "two words",
    " blanks at both ends ",
    "it's \"quoted\" \\'twice\\'",
    "a\nnew line",
    "100% %41 %zz",
    "*/ SELECT 1; /* --",
    "é漢😀",
    "#42",
    "billing|nightly",
    "a/b (host:1)",
    "name=x&command=y",
    "--force",
];

#[test]
fn every_form_of_key_is_listed_with_its_exact_value() {
    let database = database();
    let mut session = holding(
        &database,
        "pg_advisory_lock(-1), pg_advisory_lock(0), pg_advisory_lock(42), pg_advisory_lock(0, 42),
         pg_advisory_lock(-1, 5), pg_advisory_lock(-9223372036854775808),
         pg_advisory_lock(9223372036854775807), pg_advisory_lock(-2147483648, 2147483647)",
    );
    let pid = backend_pid(&mut session);
    let listed = set_of(
        &listed(&database, &[]),
        ["key", "form", "state", "mode", "pid"],
    );
    let held = |(key, form): (&str, &str)| json!([key, form, "held", "exclusive", pid]).to_string();
    let expected = [
        ("-1", "bigint"),
        ("0", "bigint"),
        ("42", "bigint"),
        ("0,42", "int4,int4"),
        ("-1,5", "int4,int4"),
        ("-9223372036854775808", "bigint"),
        ("9223372036854775807", "bigint"),
        ("-2147483648,2147483647", "int4,int4"),
    ];
    assert_eq!(listed, expected.map(held).into());
}

#[test]
fn a_lock_is_listed_once_for_each_backend_and_mode() {
    let database = database();
    let mut both_modes = holding(
        &database,
        "pg_advisory_lock(1), pg_advisory_lock_shared(1), pg_advisory_lock(2), pg_advisory_lock(2)",
    );
    let mut sharers = [(); 2].map(|()| holding(&database, "pg_advisory_lock_shared(3)"));
    let pid = backend_pid(&mut both_modes);
    let [first, second] = sharers.each_mut().map(backend_pid);

    let views = listed(&database, &[]);
    let listed = set_of(&views, ["key", "mode", "pid"]);
    let expected = [
        json!(["1", "exclusive", pid]),
        json!(["1", "shared", pid]),
        json!(["2", "exclusive", pid]),
        json!(["3", "shared", first]),
        json!(["3", "shared", second]),
    ];
    assert_eq!(views.len(), expected.len(), "{views:#?}");
    assert_eq!(listed, expected.map(|view| view.to_string()).into());
}

#[test]
fn other_databases_are_listed_only_when_asked_for_and_by_name() {
    let (here, there) = (database(), database());
    let _sessions = [&here, &there].map(|database| holding(database, "pg_advisory_lock(42)"));
    let databases = |options: &[&str]| {
        let views = listed(&here, options);
        let databases = views.iter().filter(|view| view["key"] == "42");
        databases
            .map(|view| view["database"].as_str().unwrap().to_owned())
            .filter(|database| [&here, &there].contains(&database))
            .collect::<BTreeSet<_>>()
    };
    let only_here = BTreeSet::from([here.clone()]);
    let both = BTreeSet::from([here.clone(), there.clone()]);
    assert_eq!(databases(&[]), only_here);
    assert_eq!(databases(&["--raw", "42"]), only_here);
    for all in ["-a", "--all-databases"] {
        assert_eq!(databases(&[all]), both);
        assert_eq!(databases(&[all, "--raw", "42"]), both);
    }
}

#[test]
fn a_prepared_transaction_holds_without_a_backend_also_after_a_restart() {
    let server = Server::start();
    server.execute(
        "BEGIN; SELECT pg_advisory_xact_lock(42); PREPARE TRANSACTION 'forgotten'; \
         BEGIN; SELECT pg_advisory_xact_lock(-1, 5); PREPARE TRANSACTION 'another'",
    );
    let before =
        "SELECT gid, to_char(prepared AT TIME ZONE 'UTC', $1) FROM pg_prepared_xacts ORDER BY 1";
    let prepared = server.client().query(before, &[&RFC_3339]).unwrap();
    let [other_since, since] = [0, 1].map(|row: usize| prepared[row].get::<_, String>(1));
    let list = || {
        let finished = Pglock::new(&server).args(["list", "--json"]).run();
        set_of(
            &parsed(&finished),
            ["key", "state", "pid", "prepared", "user", "since"],
        )
    };
    let expected = [
        json!(["42", "held", null, true, "postgres", since]).to_string(),
        json!(["-1,5", "held", null, true, "postgres", other_since]).to_string(),
    ];
    assert_eq!(list(), expected.clone().into());
    server.stop(Shutdown::Fast);
    server.start_again();
    assert_eq!(list(), expected.into());
}

#[test]
fn names_come_back_as_they_were_given_whatever_is_in_them() {
    let database = database();
    let long = "n".repeat(200);
    let names: Vec<&str> = ODD_NAMES.into_iter().chain([long.as_str()]).collect();
    let mut holders = Vec::new();
    let mut expected = BTreeSet::new();
    for name in &names {
        holders.push(held_by_pglock(&database, None, name));
        expected.insert(json!([name, null, key(None, name), "bigint"]).to_string());
    }
    for (name, namespace) in names.iter().zip(names.iter().skip(1)) {
        holders.push(held_by_pglock(&database, Some(namespace), name));
        let key = key(Some(namespace), name);
        expected.insert(json!([name, namespace, key, "int4,int4"]).to_string());
    }

    let views = listed(&database, &[]);
    assert_eq!(
        set_of(&views, ["name", "namespace", "key", "form"]),
        expected
    );
    assert_eq!(views.len(), holders.len());
    for holder in holders {
        holder.let_go().assert_code(0).assert_stderr("");
    }
}

#[test]
fn a_name_too_long_for_the_server_to_keep_is_listed_by_its_key() {
    let database = database();
    let name = "漢".repeat(5000);
    let holder = held_by_pglock(&database, None, &name);
    let [view] = listed(&database, &[]).try_into().unwrap();
    assert_eq!(view["key"], key(None, &name));
    assert!(view["name"].is_null() || view["name"] == name, "{view}");
    assert_eq!(view["wrapper_pid"], holder.pid().as_raw());
    assert_eq!(listed(&database, &[&name]).len(), 1);
}

#[test]
fn json_has_exactly_the_promised_keys_in_one_order() {
    let database = database();
    let _foreign = holding(&database, "pg_advisory_lock(42)");
    let _ours = pglock(&database).hold("x");
    let waiter = Waiter::start(Server::shared(), &database, "pg_advisory_lock(42)");
    let finished = list(&database, &["--json"]).run();
    let views = parsed(&finished);
    assert_eq!(views.len(), 3);
    for view in &views {
        let view = view.as_object().unwrap();
        let keys: BTreeSet<&str> = view.keys().map(String::as_str).collect();
        assert_eq!(keys, KEYS.into());
        assert!(view["key"].is_string() && view["pid"].is_i64() && view["blocked_by"].is_array());
        assert!(view["prepared"].is_boolean());
    }
    // In a string a quotation mark is escaped, so what looks like a key is one.
    let object_keys = finished.stdout.split(&['{', ','][..]).filter_map(|part| {
        let (key, _) = part.strip_prefix('"')?.split_once("\":")?;
        Some(key)
    });
    assert!(
        object_keys.eq(KEYS.into_iter().cycle().take(3 * KEYS.len())),
        "{finished:?}"
    );
    let same = list(&database, &["--format", "json"]).run();
    assert_eq!(parsed(&same).len(), 3);
    drop(waiter);
}

#[test]
fn a_holder_under_pglock_is_described_with_process_host_and_command() {
    let database = database();
    let before = server_time();
    let holder = held_by_pglock(&database, None, "nightly");
    let after = server_time();
    let [view] = listed(&database, &[]).try_into().unwrap();

    assert_eq!(view["name"], "nightly");
    assert_eq!(view["wrapper_pid"], holder.pid().as_raw());
    assert_eq!(view["host"], host_name());
    assert_eq!(view["user"], "postgres");
    assert_eq!(view["database"], database);
    assert_eq!(view["client"], "[local]");
    let words = shlex::split(view["command"].as_str().unwrap()).unwrap();
    assert_eq!(words, ["sh", "-c", "echo ready; exec cat >/dev/null"]);
    for time in ["backend_start", "since"] {
        let time = view[time].as_str().unwrap();
        assert!(
            *before <= *time && *time <= *after,
            "{before} {time} {after}"
        );
    }
    holder.let_go().assert_code(0).assert_stderr("");
}

#[test]
fn a_client_over_tcp_is_shown_with_address_and_port() {
    let server = Server::shared();
    let database = database();
    let _holder = pglock(&database).env("PGHOST", server.host()).hold("x");
    let [view] = listed(&database, &[]).try_into().unwrap();
    let client = view["client"].as_str().unwrap();
    let (_, port) = client.rsplit_once(':').unwrap();
    assert!(
        client.starts_with("127.") && port.parse::<u16>().is_ok(),
        "{view}"
    );
}

#[test]
fn since_stays_where_it_is_while_the_lock_is_held() {
    let database = database();
    let _holder = pglock(&database).hold("x");
    let look = || {
        let [view] = listed(&database, &[]).try_into().unwrap();
        (view["since"].clone(), view["seconds"].as_f64().unwrap())
    };
    let (since, seconds) = look();
    assert!(since.is_string());
    until("a second look half a second later", || {
        let (since_now, seconds_now) = look();
        assert_eq!(since_now, since);
        seconds_now > seconds + 0.5
    });
}

#[test]
fn passwords_in_the_command_are_shown_nowhere() {
    let database = database();
    let scripts = [
        "echo ready; exec cat",
        "echo ready; PGPASSWORD=s3cret exec cat",
    ];
    let secrets = [
        "postgres://u:s3cret@h/db",
        "postgres://h/db?user=u&password=s3cret",
        "PGPASSWORD=s3cret",
        "--password=s3cret",
        "host=h password=s3cret user=u",
    ];
    for (at, script) in scripts.into_iter().enumerate() {
        let words = ["run", &format!("{at}"), "sh", "-c", script];
        let mut holder = pglock(&database).args(words).args(secrets).spawn();
        holder.wait_line("ready");
        for options in [&["--json"][..], &["--format", "csv"], &["--wide"]] {
            let finished = list(&database, options).run();
            finished
                .assert_code(0)
                .assert_stderr("")
                .assert_stdout_has("***")
                .assert(!finished.stdout.contains("s3cret"), "no password");
        }
        let leaks = "SELECT FROM pg_stat_activity
            WHERE datname = $1 AND (query LIKE '%s3cret%' OR application_name LIKE '%s3cret%')";
        let leaks = Server::shared().client().query(leaks, &[&database]);
        assert_eq!(leaks.unwrap().len(), 0);
        holder.let_go().assert_code(0).assert_stderr("");
    }
}

#[test]
fn a_quoted_password_and_one_after_blanks_are_masked_whole() {
    let database = database();
    let script = "echo ready; exec cat";
    for (words, typed) in [
        (["sh", "-c", script], "host=h password='my s3cret' user=u"),
        (["sh", "-c", script], "host=h password = s3cret user=u"),
        (
            ["sh", "-c", "echo ready; PGPASSWORD='my s3cret' exec cat"],
            "",
        ),
    ] {
        let run = pglock(&database).args(["run", "x"]);
        let mut holder = run.args(words).arg(typed).spawn();
        holder.wait_line("ready");
        let shown = list(&database, &["--json"]).run();
        shown
            .assert_code(0)
            .assert_stderr("")
            .assert_stdout_has("***")
            .assert(!shown.stdout.contains("s3cret"), "no password");
        holder.let_go().assert_code(0).assert_stderr("");
    }
}

#[test]
fn foreign_waiters_are_listed_with_whom_they_wait_for() {
    let database = database();
    let mut holder = holding(&database, "pg_advisory_lock(42)");
    let holder_pid = backend_pid(&mut holder);
    let before = server_time();
    let exclusive = Waiter::start(Server::shared(), &database, "pg_advisory_lock(42)");
    let shared = Waiter::start(Server::shared(), &database, "pg_advisory_lock_shared(42)");
    let after = server_time();

    let views = listed(&database, &["--raw", "42"]);
    let rows = set_of(&views, ["key", "state", "mode", "pid"]);
    let expected = [
        json!(["42", "held", "exclusive", holder_pid]),
        json!(["42", "waiting", "exclusive", exclusive.pid()]),
        json!(["42", "waiting", "shared", shared.pid()]),
    ];
    assert_eq!(rows, expected.map(|row| row.to_string()).into());
    assert_eq!(views[0]["blocked_by"], json!([]));
    assert_eq!(
        of_pid(&views, exclusive.pid())["blocked_by"],
        json!([holder_pid])
    );
    let blockers = of_pid(&views, shared.pid())["blocked_by"]
        .as_array()
        .unwrap();
    assert!(blockers.contains(&json!(holder_pid)), "{views:#?}");
    // The start of a wait in the lock table came with PostgreSQL 14.
    if Server::shared().version_num() >= 140_000 {
        for waiter in [&exclusive, &shared] {
            let since = of_pid(&views, waiter.pid())["since"].as_str().unwrap();
            assert!(
                *before <= *since && *since <= *after,
                "{before} {since} {after}"
            );
        }
    }
}

#[test]
fn a_waiting_run_is_listed_once_and_since_the_wait_began() {
    let database = database();
    let mut holder = holding(&database, "pg_advisory_lock(42)");
    let holder_pid = backend_pid(&mut holder);
    for (options, mode) in [(&[][..], "exclusive"), (&["-s"], "shared")] {
        let before = server_time();
        let words = ["--raw", "42", "true"];
        let waiter = pglock(&database)
            .arg("run")
            .args(options)
            .args(words)
            .spawn();
        let look = || {
            let views = listed(&database, &[]);
            let mut waiting: Vec<Value> = views
                .into_iter()
                .filter(|view| view["wrapper_pid"] == waiter.pid().as_raw())
                .collect();
            assert!(waiting.len() < 2, "{waiting:#?}");
            waiting.pop()
        };
        let first = until("the waiting session", look);
        let after = server_time();
        assert_eq!(
            json!([
                first["key"],
                first["state"],
                first["mode"],
                first["blocked_by"]
            ]),
            json!(["42", "waiting", mode, [holder_pid]])
        );
        assert_eq!(first["host"], host_name());
        assert_eq!(first["command"], "true");
        let since = first["since"].as_str().unwrap();
        assert!(
            *before <= *since && *since <= *after,
            "{before} {since} {after}"
        );

        let pid = i32::try_from(first["pid"].as_i64().unwrap()).unwrap();
        let mut tries = BTreeSet::new();
        until("three more tries", || {
            tries.insert(query_start(pid));
            let view = look().expect("listed also between two tries");
            assert_eq!(
                [&view["pid"], &view["since"]],
                [&first["pid"], &first["since"]]
            );
            tries.len() > 3
        });
        drop(waiter);
        until("the end of the waiting session", || {
            listed(&database, &[]).len() == 1
        });
    }
}

#[test]
fn a_role_without_rights_sees_who_holds_but_not_since_when_and_what() {
    let database = database();
    let server = Server::shared();
    let nobody = server.role("NOSUPERUSER");
    let mut foreign = holding(&database, "pg_advisory_lock(42)");
    let ours = pglock(&database).hold("nightly");
    let waiting = pglock(&database).args(["run", "nightly", "true"]).spawn();
    let views = until("the waiting session", || {
        let views = listed(&database, &["-U", &nobody]);
        (views.len() == 3).then_some(views)
    });

    let rows = set_of(&views, ["name", "key", "state", "user", "wrapper_pid"]);
    let key = key(None, "nightly");
    let expected = [
        json!([null, "42", "held", "postgres", null]),
        json!(["nightly", key, "held", "postgres", ours.pid().as_raw()]),
        json!([
            "nightly",
            key,
            "waiting",
            "postgres",
            waiting.pid().as_raw()
        ]),
    ];
    assert_eq!(rows, expected.map(|row| row.to_string()).into());
    assert!(of_pid(&views, backend_pid(&mut foreign))["host"].is_null());
    for view in &views {
        assert_eq!(
            [&view["since"], &view["seconds"], &view["command"]],
            [&Value::Null; 3],
            "{view}"
        );
        let named = view["name"].is_null() || view["host"] == host_name();
        assert!(named && view["pid"].is_i64(), "{view}");
    }
}

#[test]
fn a_role_without_rights_is_told_once_which_grant_would_help() {
    let database = database();
    let nobody = Server::shared().role("NOSUPERUSER");
    let _holders = [7, 8].map(|key| holding(&database, &format!("pg_advisory_lock({key})")));
    let grant = format!("GRANT pg_read_all_stats TO {nobody}");
    for options in [&[][..], &["--wide"], &["--tree"]] {
        let finished = list(&database, options).args(["-U", &nobody]).run();
        finished
            .assert_code(0)
            .assert_one_message()
            .assert_stderr_has(&grant);
        finished.assert(finished.stdout.contains(" ? "), "a question mark");
    }
    let others = [
        &["--json"][..],
        &["--format", "csv"],
        &["--format", "prometheus"],
        &["-q"],
    ];
    for options in others {
        let finished = list(&database, options).args(["-U", &nobody]).run();
        finished.assert_code(0).assert_stderr("");
    }
    Server::shared().execute(&grant);
    let finished = list(&database, &["-U", &nobody]).run();
    finished.assert_code(0).assert_stderr("");
}

#[test]
fn a_shown_name_always_hashes_to_the_shown_key() {
    let database = database();
    let mut liar = holding(&database, "pg_advisory_lock(42)");
    for lie in [
        "SET application_name = 'pglock: other (h:1)'",
        "SET application_name = 'pglock: ns|other (h:1)'",
        "/*pglock host=h&pid=1&name=other&command=x*/ SET application_name = 'pglock: #42 (h:1)'",
    ] {
        liar.batch_execute(lie).unwrap();
        let views = listed(&database, &["--raw", "42"]);
        let shown = set_of(&views, ["name", "namespace", "key", "state"]);
        let expected = json!([null, null, "42", "held"]).to_string();
        assert_eq!(shown, [expected].into(), "{lie}");
    }
}

#[test]
fn csv_is_read_back_as_the_same_as_json() {
    let database = database();
    let holders = ["a, \"b\"\nc", "plain"].map(|name| pglock(&database).hold(name));
    let _foreign = holding(
        &database,
        "pg_advisory_lock(-1, 5), pg_advisory_lock_shared(7)",
    );
    let waiter = Waiter::start(Server::shared(), &database, "pg_advisory_lock(7)");
    let finished = list(&database, &["--format", "csv"]).run();
    finished.assert_code(0).assert_stderr("");

    let mut reader = csv::Reader::from_reader(finished.stdout.as_bytes());
    assert_eq!(reader.headers().unwrap(), KEYS.as_slice());
    let records: Vec<csv::StringRecord> = reader.records().map(Result::unwrap).collect();
    let views = listed(&database, &[]);
    assert_eq!(records.len(), views.len());
    for view in &views {
        let row = KEYS.map(|key| csv_cell(&view[key]));
        // The age is of the moment.
        let same = |record: &csv::StringRecord| {
            KEYS.iter()
                .zip(record)
                .zip(&row)
                .all(|((key, read), cell)| *key == "seconds" || read == cell)
        };
        assert!(records.iter().any(same), "{row:?} in {finished:?}");
    }
    drop((waiter, holders));
}

fn csv_cell(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(csv_cell).collect::<Vec<_>>().join(" "),
        other => other.to_string(),
    }
}

#[test]
fn nothing_held_is_an_empty_array_or_a_lonely_header() {
    let database = database();
    let header = KEYS.join(",") + "\r\n";
    for (options, output) in [
        (&["--json"][..], "[]\n"),
        (&["--format", "json"], "[]\n"),
        (&["--format", "csv"], &header),
        (&["--json", "no such lock"], "[]\n"),
    ] {
        let finished = list(&database, options).run();
        finished
            .assert_code(0)
            .assert_stderr("")
            .assert_stdout(output);
    }
    let table = list(&database, &[]).run();
    table.assert_code(0).assert_stderr("");
    table.assert(table.stdout.lines().count() == 1, "one line");
    table.assert(table.stdout.starts_with("NAME "), "a header");
}

#[test]
fn quiet_answers_by_the_exit_status_alone() {
    let database = database();
    let ask = |words: &[&str]| {
        let finished = list(&database, &["-q"]).args(words).run();
        finished.assert_silent();
        finished.code
    };
    assert_eq!(ask(&[]), Some(1));
    assert_eq!(ask(&["x"]), Some(1));
    let holder = pglock(&database).hold("x");
    let shared = pglock(&database).arg("-s").hold("s");
    assert_eq!(ask(&[]), Some(0));
    assert_eq!(ask(&["x"]), Some(0));
    assert_eq!(ask(&["s"]), Some(0));
    assert_eq!(ask(&["--json", "x"]), Some(0));
    assert_eq!(ask(&["y"]), Some(1));
    assert_eq!(ask(&["y", "x"]), Some(0));
    assert_eq!(ask(&["-N", "ns", "x"]), Some(1));
    holder.let_go().assert_code(0);
    assert_eq!(ask(&["x"]), Some(1));
    shared.let_go().assert_code(0);
    assert_eq!(ask(&[]), Some(1));
}

/// Only this session's word says that it waits; the lock itself is free.
#[test]
fn one_who_only_waits_holds_nothing() {
    let database = database();
    let mut session = client(&database);
    session
        .batch_execute("SET application_name = 'pglock? x (h:1)'")
        .unwrap();
    let views = listed(&database, &["x"]);
    assert_eq!(
        set_of(&views, ["name", "state"]),
        [json!(["x", "waiting"]).to_string()].into()
    );
    let asked = list(&database, &["-q", "x"]).run();
    asked.assert_code(1).assert_silent();
}

#[test]
fn a_glob_finds_the_names_of_locks_taken_by_pglock() {
    let database = database();
    let held = [
        "job-1",
        "job-2",
        "jobs",
        "set[1]",
        "set1",
        "star*",
        "half[open",
        "job-*",
    ];
    let _holders = held.map(|name| held_by_pglock(&database, None, name));
    let _spaced = ["job-1", "other"].map(|name| held_by_pglock(&database, Some("ns"), name));
    let _foreign = holding(&database, "pg_advisory_lock(42)");
    let names = |words: &[&str]| -> Vec<String> {
        let views = listed(&database, words);
        let names = views
            .iter()
            .map(|view| view["name"].as_str().unwrap_or("?").to_owned());
        let mut names: Vec<String> = names.collect();
        names.sort();
        names
    };
    assert_eq!(names(&["job-*"]), ["job-*", "job-1", "job-2"]);
    assert_eq!(names(&["job-?"]), ["job-*", "job-1", "job-2"]);
    assert_eq!(names(&["job-[12]"]), ["job-1", "job-2"]);
    assert_eq!(names(&["job-[!1]", "jobs"]), ["job-*", "job-2", "jobs"]);
    assert_eq!(names(&["JOB-*"]), [""; 0]);
    assert_eq!(names(&["ob-*"]), [""; 0], "the whole name has to match");
    // A name that holds a wildcard is found by itself too.
    assert_eq!(names(&["set[1]"]), ["set1", "set[1]"]);
    assert_eq!(names(&["star*"]), ["star*"]);
    assert_eq!(names(&["half[open"]), ["half[open"]);
    assert_eq!(names(&["*"]).len(), held.len());
    assert_eq!(names(&["-N", "ns", "job-*"]), ["job-1"]);
    assert_eq!(names(&["-N", "ns", "*"]), ["job-1", "other"]);
    assert_eq!(names(&["-N", "*", "job-1"]), [""; 0]);
    let quiet = |name: &str| list(&database, &["-q", name]).run();
    quiet("jo*").assert_code(0).assert_silent();
    quiet("no*").assert_code(1).assert_silent();
}

#[test]
fn a_namespace_alone_lists_everything_in_it() {
    let database = database();
    let _holders =
        [Some("ns"), Some("other"), None].map(|space| held_by_pglock(&database, space, "x"));
    let foreign = key(Some("ns"), "held by another program");
    let _foreign = holding(&database, &format!("pg_advisory_lock({foreign})"));
    let ours = key(Some("ns"), "x");
    let all: BTreeSet<String> = [&ours, &foreign].map(|key| json!([key]).to_string()).into();
    let only_x: BTreeSet<String> = [json!([ours]).to_string()].into();
    assert_eq!(set_of(&listed(&database, &["-N", "ns"]), ["key"]), all);
    assert_eq!(
        set_of(&listed(&database, &["-N", "ns", "x"]), ["key"]),
        only_x
    );
    let by_variable = pglock(&database).env("PGLOCK_NAMESPACE", "ns");
    let finished = by_variable.args(["list", "--json", "x"]).run();
    assert_eq!(set_of(&parsed(&finished), ["key"]), only_x);
}

#[test]
fn raw_keys_are_found_with_their_sign_and_form() {
    let database = database();
    let _foreign = holding(
        &database,
        "pg_advisory_lock(-5), pg_advisory_lock(5), pg_advisory_lock(-1, 5), pg_advisory_lock(0, 5)",
    );
    let keys = |words: &[&str]| set_of(&listed(&database, words), ["key"]);
    for (words, found) in [
        (&["--raw", "--", "-1,5"][..], &["-1,5"][..]),
        (&["--raw", "-5"], &["-5"]),
        (&["--raw", "5"], &["5"]),
        (&["--raw", "0,5"], &["0,5"]),
        (&["--raw", "5", "-5", "6"], &["5", "-5"]),
        (&["--raw", "5,0"], &[]),
    ] {
        let found = found.iter().map(|key| json!([key]).to_string()).collect();
        assert_eq!(keys(words), found, "{words:?}");
    }
}

#[test]
fn a_reader_that_has_gone_is_no_fault() {
    let database = database();
    let _foreign = holding(&database, "pg_advisory_lock(42)");
    for words in [
        &["list"][..],
        &["list", "--json"],
        &["list", "--format", "csv"],
        &["list", "--format", "prometheus"],
        &["list", "--tree"],
        &["list", "--watch=0.1"],
        &["key", "x"],
        &["--help"],
    ] {
        let (reader, stdout) = pipe().unwrap();
        drop(reader);
        let (mut errors, stderr) = pipe().unwrap();
        let mut pglock = pglock(&database).args(words);
        let running = Running::start_as_is(pglock.command().stdout(stdout).stderr(stderr));
        // The builder holds the writing end of the pipe.
        drop(pglock);
        running.wait().assert_code(0);
        let mut said = String::new();
        errors.read_to_string(&mut said).unwrap();
        assert_eq!(said, "", "{words:?}");
    }
}

#[test]
fn a_standard_output_that_takes_nothing_is_an_error() {
    let database = database();
    let _foreign = holding(&database, "pg_advisory_lock(42)");
    for words in [
        &["list"][..],
        &["list", "--json"],
        &["list", "--format", "csv"],
        &["key", "x"],
        &["--help"],
        &["--version"],
    ] {
        for redirection in [">/dev/full", ">&-"] {
            let script = format!("exec \"$@\" {redirection}");
            let finished = pglock(&database)
                .through(&["sh", "-c", &script, "sh"])
                .args(words)
                .run();
            finished
                .assert_code(125)
                .assert_stdout("")
                .assert_one_message()
                .assert_stderr_has("standard output");
        }
    }
}

/// As [`server_time`] and `--json` write times.
const RFC_3339: &str = "YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"";

/// The server's clock, so written that the order of the texts is that of the times.
fn server_time() -> String {
    let now = "SELECT to_char(clock_timestamp() AT TIME ZONE 'UTC', $1)";
    Server::shared()
        .client()
        .query_one(now, &[&RFC_3339])
        .unwrap()
        .get(0)
}

/// When the backend's last statement began.
fn query_start(pid: i32) -> String {
    let start = "SELECT query_start::text FROM pg_stat_activity WHERE pid = $1";
    Server::shared()
        .client()
        .query_one(start, &[&pid])
        .unwrap()
        .get(0)
}

pub fn host_name() -> String {
    nix::unistd::gethostname().unwrap().into_string().unwrap()
}

pub fn database() -> String {
    Server::shared().database()
}

pub fn pglock(database: &str) -> Pglock {
    Pglock::new(Server::shared()).env("PGDATABASE", database)
}

pub fn list(database: &str, words: &[&str]) -> Pglock {
    pglock(database).arg("list").args(words)
}

/// What `list --json` with these further words gives.
#[track_caller]
pub fn listed(database: &str, words: &[&str]) -> Vec<Value> {
    parsed(&list(database, &["--json"]).args(words).run())
}

#[track_caller]
pub fn parsed(finished: &Finished) -> Vec<Value> {
    finished.assert_code(0).assert_stderr("");
    serde_json::from_str(&finished.stdout).unwrap_or_else(|error| panic!("{error}: {finished:?}"))
}

/// Each view's values of these keys, as JSON arrays.
pub fn set_of<const N: usize>(views: &[Value], keys: [&str; N]) -> BTreeSet<String> {
    let row = |view: &Value| Value::Array(keys.map(|key| view[key].clone()).to_vec()).to_string();
    views.iter().map(row).collect()
}

#[track_caller]
pub fn of_pid(views: &[Value], pid: i32) -> &Value {
    let view = views.iter().find(|view| view["pid"] == pid);
    view.unwrap_or_else(|| panic!("no {pid} in {views:#?}"))
}

/// The key as `pglock key` gives it.
#[track_caller]
pub fn key(namespace: Option<&str>, name: &str) -> String {
    let namespace = namespace.map(|namespace| format!("--namespace={namespace}"));
    let pglock = Pglock::without_server().arg("key").args(namespace);
    let finished = pglock.args(["--", name]).run();
    finished.assert_code(0).assert_stderr("");
    finished.stdout.trim_end().to_owned()
}

/// As [`Pglock::hold`], also for names that begin like an option.
#[track_caller]
pub fn held_by_pglock(database: &str, namespace: Option<&str>, name: &str) -> Running {
    let namespace = namespace.map(|namespace| format!("--namespace={namespace}"));
    let words = ["--", name, "sh", "-c", "echo ready; exec cat >/dev/null"];
    let mut running = pglock(database)
        .arg("run")
        .args(namespace)
        .args(words)
        .spawn();
    running.wait_line("ready");
    running
}

#[track_caller]
pub fn client(database: &str) -> Client {
    Server::shared().client_as(database, "postgres")
}

/// A session of another program that has called this for locks.
#[track_caller]
pub fn holding(database: &str, calls: &str) -> Client {
    let mut client = client(database);
    client.batch_execute(&format!("SELECT {calls}")).unwrap();
    client
}
