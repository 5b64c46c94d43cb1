//! The table of `list` at several widths and in two locales, as recorded in tests/snapshots.
//!
//! A look-alike of a server gives the same locks, processes and times for ever.
//! `PGLOCK_WRITE_ASSETS=1 cargo test snapshots` records anew.

use std::net::TcpListener;
use std::thread;

use crate::assets::assert_is;
use crate::list::key;
use crate::support::Pglock;
use crate::support::look_alike::{answer, serve};

#[test]
fn the_table_is_as_recorded_at_every_width_and_in_every_locale() {
    for (locale, suffix) in [("C.UTF-8", "utf8"), ("C", "c")] {
        for columns in ["40", "80", "120", "200"] {
            let mut snapshot = String::new();
            for words in [
                &["list"][..],
                &["list", "--tree"],
                &["list", "-a", "--wide"],
            ] {
                let (table, hint) = listed(words, columns, locale);
                assert_fits(&table, columns, locale);
                let command = words.join(" ");
                snapshot.extend([
                    format!("$ COLUMNS={columns} LC_ALL={locale} pglock {command}\n"),
                    table,
                    hint + "\n",
                ]);
            }
            let file = format!("list-{columns}-{suffix}.txt");
            assert_is(&["tests", "snapshots", &file], snapshot.as_bytes());
        }
    }
}

#[test]
fn no_line_is_longer_than_the_narrowest_terminal() {
    for columns in ["1", "2", "3", "5", "9", "14", "22", "33", "61", "99", "155"] {
        for locale in ["C.UTF-8", "C"] {
            let (table, _) = listed(&["list", "-a", "--wide", "--tree"], columns, locale);
            assert_eq!(table.lines().count(), rows().len() + 1);
            assert_fits(&table, columns, locale);
        }
    }
}

#[track_caller]
fn assert_fits(table: &str, columns: &str, locale: &str) {
    let room = columns.parse().unwrap();
    for line in table.lines() {
        assert!(width(line) <= room, "{columns}: {line}");
        assert!(line.is_ascii() || locale != "C", "{line}");
        assert!(!line.ends_with(' '), "{line}");
    }
}

/// What the table says, and what standard error.
fn listed(words: &[&str], columns: &str, locale: &str) -> (String, String) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let rows: Vec<_> = rows().iter().map(|row| row.values().to_vec()).collect();
    let answer = answer(&COLUMNS, &rows);
    let server = thread::spawn(move || {
        let (mut client, _) = listener.accept().unwrap();
        serve(&mut client, &answer)
    });
    let finished = Pglock::without_server()
        .env("PGHOST", "127.0.0.1")
        .env("PGPORT", port.to_string())
        .env("PGSSLMODE", "disable")
        .env("PGUSER", "nobody")
        .env("COLUMNS", columns)
        .env("LC_ALL", locale)
        .args(words)
        .run();
    finished.assert_code(0);
    server.join().unwrap();
    (finished.stdout, finished.stderr)
}

/// How many columns a line takes: of all characters here only the ideographs take two.
fn width(line: &str) -> usize {
    line.chars()
        .map(|c| {
            if ('\u{4e00}'..'\u{a000}').contains(&c) {
                2
            } else {
                1
            }
        })
        .sum()
}

/// A moment of 2026, in microseconds since 1970.
const NOW: i64 = 1_790_000_000_000_000;
const MINUTE: i64 = 60_000_000;

const COLUMNS: [&str; 20] = [
    "standby",
    "classid",
    "objid",
    "objsubid",
    "mode",
    "granted",
    "pid",
    "database",
    "usename",
    "application_name",
    "client",
    "query",
    "blocked_by",
    "gid",
    "backend_start",
    "query_start",
    "wait_start",
    "prepared",
    "now",
    "role",
];

/// A row of the answer; what is not set is null.
#[derive(Default)]
struct Row {
    /// The halves of the key, and how many numbers it has.
    key: Option<(u32, u32, u16)>,
    waits: bool,
    shared: bool,
    pid: Option<u32>,
    user: &'static str,
    says: String,
    client: &'static str,
    query: String,
    blocked_by: &'static str,
    /// How long ago the session began, in minutes, unless that is hidden.
    age: Option<i64>,
    wait: Option<i64>,
    prepared: Option<i64>,
}

fn rows() -> Vec<Row> {
    let report = || bigint("nightly-report");
    let pglock = |stage: &str, ago: i64, command: &str| {
        let since = NOW - ago * MINUTE;
        format!("/*pglock host=web-1.example&{stage}={since}&command={command} */SELECT 1")
    };
    let ours = Row {
        user: "app",
        client: "10.1.2.3:50112",
        age: Some(5000),
        ..Row::default()
    };
    let local = || Row {
        user: "app",
        client: "[local]",
        age: Some(100),
        ..Row::default()
    };
    vec![
        Row {
            key: Some(report()),
            pid: Some(4_194_303),
            says: "pglock: nightly-report (web-1.example:812)".to_owned(),
            query: pglock("held", 3120, "./report.sh --full --mail ops@example.org"),
            ..ours
        },
        Row {
            pid: Some(812),
            user: "app",
            client: "10.1.2.4:50113",
            says: "pglock? nightly-report (web-2.example:71)".to_owned(),
            query: pglock("waiting", 3, "./report.sh --full --mail ops@example.org"),
            age: Some(5000),
            ..Row::default()
        },
        Row {
            key: Some(pair("billing", "invoices")),
            pid: Some(9001),
            user: "billing_batch",
            client: "[local]",
            says: "pglock: billing|invoices (db-1:4242)".to_owned(),
            query: pglock("held", 0, "./invoices"),
            age: Some(1),
            ..Row::default()
        },
        Row {
            key: Some(bigint("größe 漢字\n")),
            shared: true,
            pid: Some(9002),
            user: "app",
            client: "10.1.2.3:50114",
            says: "pglock: gr%C3%B6%C3%9Fe %E6%BC%A2%E5%AD%97%0A (web-1.example:900)".to_owned(),
            query: pglock("held", 59, "sh -c 'größe 漢字 %1b[2J'"),
            age: Some(60),
            ..Row::default()
        },
        Row {
            key: Some((0, 42, 1)),
            pid: Some(77),
            user: "postgres",
            says: "psql".to_owned(),
            ..Row::default()
        },
        Row {
            key: Some((0, 42, 1)),
            waits: true,
            pid: Some(78),
            says: "a worker".to_owned(),
            blocked_by: "77",
            wait: Some(61),
            ..local()
        },
        Row {
            key: Some((u32::MAX, 7, 2)),
            pid: Some(78),
            says: "a worker".to_owned(),
            ..local()
        },
        Row {
            key: Some((u32::MAX, 7, 2)),
            waits: true,
            shared: true,
            pid: Some(79),
            says: "another worker".to_owned(),
            blocked_by: "78",
            wait: Some(1),
            ..local()
        },
        Row {
            key: Some((0x8000_0000, 0, 1)),
            user: "app",
            prepared: Some(60 * 24 * 400),
            ..Row::default()
        },
        Row {
            key: Some((0, 102_008, 5)),
            pid: Some(80),
            says: "psql".to_owned(),
            ..local()
        },
    ]
}

fn bigint(name: &str) -> (u32, u32, u16) {
    let key: i64 = key(None, name).parse().unwrap();
    let [high, low] = [key >> 32, key].map(|half| (half & 0xffff_ffff).try_into().unwrap());
    (high, low, 1)
}

fn pair(namespace: &str, name: &str) -> (u32, u32, u16) {
    let key = key(Some(namespace), name);
    let (first, second) = key.split_once(',').unwrap();
    let [first, second] = [first, second].map(|half| half.parse::<i32>().unwrap().cast_unsigned());
    (first, second, 2)
}

impl Row {
    fn values(&self) -> [Option<String>; COLUMNS.len()] {
        let known = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        let ago = |minutes: i64| (NOW - minutes * MINUTE).to_string();
        let mode = if self.shared {
            "ShareLock"
        } else {
            "ExclusiveLock"
        };
        [
            known("f"),
            self.key.map(|(high, _, _)| high.to_string()),
            self.key.map(|(_, low, _)| low.to_string()),
            self.key.map(|(_, _, form)| form.to_string()),
            self.key.and(known(mode)),
            self.key.and(known(if self.waits { "f" } else { "t" })),
            self.pid.map(|pid| pid.to_string()),
            known("app"),
            known(self.user),
            known(&self.says),
            known(self.client),
            known(&self.query),
            known(self.blocked_by),
            None,
            self.age.map(ago),
            self.age.map(ago),
            self.wait.map(ago),
            self.prepared.map(ago),
            Some(NOW.to_string()),
            known("nobody"),
        ]
    }
}
