//! `list --format prometheus`: text that Prometheus and OpenMetrics parsers both read.

use std::collections::{BTreeMap, BTreeSet};

use crate::list::{database, held_by_pglock, holding, key, list};
use crate::support::{Finished, Pglock, Server, Waiter, Watchdog};

const METRICS: [&str; 4] = [
    "pglock_lock_holders",
    "pglock_lock_waiters",
    "pglock_lock_held_seconds",
    "pglock_lock_waiting_seconds",
];

#[test]
fn holders_and_waiters_are_counted_and_timed_by_lock() {
    let server = Server::shared();
    let database = database();
    let _spaced = held_by_pglock(&database, Some("billing"), "nightly");
    let _sharers = [(); 2].map(|()| holding(&database, "pg_advisory_lock_shared(4242)"));
    let _waiter = Waiter::start(server, &database, "pg_advisory_lock(4242)");
    let samples = samples(&list(&database, &["--format", "prometheus"]).run());
    let label = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let billing = BTreeMap::from([
        label("database", &database),
        label("namespace", "billing"),
        label("name", "nightly"),
        label("key", &key(Some("billing"), "nightly")),
    ]);
    let foreign = BTreeMap::from([label("database", &database), label("key", "4242")]);
    let value = |metric: &str, labels: &BTreeMap<String, String>| {
        samples.get(&(metric.to_owned(), labels.clone())).copied()
    };
    assert_eq!(value(METRICS[0], &billing), Some(1.0));
    assert_eq!(value(METRICS[1], &billing), Some(0.0));
    assert!(value(METRICS[2], &billing).unwrap() >= 0.0);
    assert_eq!(value(METRICS[3], &billing), None);
    assert_eq!(value(METRICS[0], &foreign), Some(2.0));
    assert_eq!(value(METRICS[1], &foreign), Some(1.0));
    assert_eq!(value(METRICS[2], &foreign), None, "nobody knows");
    if server.version_num() >= 140_000 {
        assert!(value(METRICS[3], &foreign).unwrap() >= 0.0);
    }
}

#[test]
fn any_name_is_one_label_on_one_line() {
    let database = database();
    let names = [
        "a \"b\"",
        "back\\slash\\n",
        "new\nline",
        "é 漢 {x=\"y\"} # 1",
        "tab\tbell\x07",
    ];
    let _holders = names.map(|name| held_by_pglock(&database, None, name));
    let samples = samples(&list(&database, &["--format", "prometheus"]).run());
    let found: BTreeSet<&str> = samples
        .keys()
        .map(|(_, labels)| labels["name"].as_str())
        .collect();
    assert_eq!(found, names.into());

    let on_terminal = list(&database, &["--format", "prometheus"])
        .on_terminal()
        .wait();
    on_terminal
        .assert_code(0)
        .assert_stdout_has("tab\\\\tbell\\\\u{7}");
}

#[test]
fn locks_of_one_name_on_two_servers_are_two_series() {
    let servers = [Server::start(), Server::start()];
    let _holders = servers.each_ref().map(|server| {
        let mut client = server.client();
        client.batch_execute("SELECT pg_advisory_lock(42)").unwrap();
        client
    });
    // As symbolic links the directories of the sockets have names that a template can give.
    let scratch = Watchdog::start();
    for (at, server) in servers.iter().enumerate() {
        let name = scratch.directory().join(format!("shard{at}"));
        std::os::unix::fs::symlink(server.socket_dir(), name).unwrap();
        let from = |port: u16| format!(".s.PGSQL.{port}");
        let port = servers[0].port();
        if at > 0 {
            let socket = server.socket_dir();
            std::os::unix::fs::symlink(socket.join(from(server.port())), socket.join(from(port)))
                .unwrap();
        }
    }
    let place = format!(
        "host={}/shard{{shard:2}} port={} user=postgres dbname=postgres",
        scratch.directory().display(),
        servers[0].port()
    );
    let words = ["list", "--format", "prometheus", "-d", &place];
    let samples = samples(&Pglock::without_server().args(words).run());
    let holders = samples
        .iter()
        .filter(|((metric, _), _)| metric == METRICS[0]);
    let hosts: Vec<&str> = holders
        .map(|((_, labels), count)| {
            assert_eq!((labels["key"].as_str(), *count), ("42", 1.0));
            labels["server_host"].rsplit('/').next().unwrap()
        })
        .collect();
    assert_eq!(hosts, ["shard0", "shard1"]);
}

#[test]
fn without_a_lock_there_is_still_a_valid_text() {
    let samples = samples(&list(&database(), &["--format", "prometheus"]).run());
    assert!(samples.is_empty());
}

type Samples = BTreeMap<(String, BTreeMap<String, String>), f64>;

/// Reads the text as strictly as either format wants it (Prometheus documentation, "Exposition formats"; OpenMetrics
/// 1.0): metadata before samples, all of a metric together, no series twice, no timestamp, one end.
fn samples(finished: &Finished) -> Samples {
    finished.assert_code(0).assert_stderr("");
    let body = finished.stdout.strip_suffix("# EOF\n");
    let body = body.unwrap_or_else(|| panic!("no end: {finished:?}"));
    let mut metrics: Vec<&str> = Vec::new();
    let mut found = Samples::new();
    for line in body.lines() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            metrics.push(help.split_once(' ').unwrap().0);
        } else if let Some(kind) = line.strip_prefix("# TYPE ") {
            assert_eq!(kind, format!("{} gauge", metrics.last().unwrap()));
        } else {
            let (metric, rest) = line.split_once('{').unwrap();
            assert_eq!(Some(&metric), metrics.last(), "{line}");
            let (labels, value) = labels(rest);
            let value = value.strip_prefix(' ').unwrap().parse().unwrap();
            let twice = found.insert((metric.to_owned(), labels), value);
            assert_eq!(twice, None, "{line}");
        }
    }
    assert_eq!(metrics, METRICS);
    found
}

/// The labels up to the closing brace, and what follows it.
fn labels(text: &str) -> (BTreeMap<String, String>, &str) {
    let mut labels = BTreeMap::new();
    let mut rest = text;
    loop {
        let (name, after) = rest.split_once("=\"").unwrap();
        let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte == b'_';
        assert!(name.bytes().all(is_plain), "{text}");
        let mut value = String::new();
        let mut chars = after.char_indices();
        let end = loop {
            match chars.next().unwrap() {
                (at, '"') => break at + 1,
                (_, '\\') => value.push(match chars.next().unwrap().1 {
                    'n' => '\n',
                    c @ ('\\' | '"') => c,
                    other => panic!("\\{other} in {text}"),
                }),
                (_, c) => value.push(c),
            }
        };
        assert_eq!(labels.insert(name.to_owned(), value), None, "{text}");
        match after[end..].strip_prefix(',') {
            Some(more) => rest = more,
            None => return (labels, after[end..].strip_prefix('}').unwrap()),
        }
    }
}
