//! The table of `list`: for people, and what they type of it.

use std::collections::BTreeSet;

use crate::list::{
    ODD_NAMES, database, held_by_pglock, holding, host_name, key, list, parsed, pglock,
};
use crate::support::{Server, Waiter, backend_pid, until};

#[test]
fn the_table_has_a_header_and_a_line_for_each_lock() {
    let database = database();
    let mut foreign = holding(&database, "pg_advisory_lock(4242)");
    let _ours = held_by_pglock(&database, Some("billing"), "nightly report");
    for options in [&[][..], &["--format", "table"]] {
        let finished = list(&database, options).run();
        finished.assert_code(0).assert_stderr("");
        let lines: Vec<&str> = finished.stdout.lines().collect();
        finished.assert(lines.len() == 3, "a header and two lines");
        let header: Vec<&str> = lines[0].split_whitespace().collect();
        let narrow = "NAME KEY STATE MODE PID USER HOST SINCE COMMAND";
        assert_eq!(header.join(" "), narrow);
        let foreign_line = lines.iter().find(|line| line.contains(" 4242 ")).unwrap();
        let cells: Vec<&str> = foreign_line.split_whitespace().collect();
        let pid = backend_pid(&mut foreign).to_string();
        let expected = [
            "?",
            "4242",
            "held",
            "exclusive",
            &pid,
            "postgres",
            "[local]",
            "?",
            "?",
        ];
        assert_eq!(cells, expected);
        let ours = lines
            .iter()
            .find(|line| line.starts_with("-N billing 'nightly report' "));
        let ours = ours.unwrap();
        for cell in [
            &key(Some("billing"), "nightly report"),
            &host_name(),
            "sh -c",
        ] {
            assert!(ours.contains(cell), "{finished:?}");
        }
    }
}

/// What stands in the first column is typed after `list` or `release` as it is.
#[test]
fn a_name_is_shown_as_a_shell_takes_it() {
    let database = database();
    let mut holders = Vec::new();
    let more = ["a/b", "-N ns x", "\x1b[2J\u{202e}'\\"];
    let names = ODD_NAMES.into_iter().chain(more);
    for (at, name) in names.enumerate() {
        let namespace = [None, Some(name), Some("-"), Some("ns")][at % 4];
        holders.push((namespace, name, held_by_pglock(&database, namespace, name)));
    }
    let pasted = |shown: &str| {
        let script = format!("exec \"$0\" list --json {shown}");
        let found = pglock(&database).through(&["bash", "-c", &script]).run();
        let [view] = parsed(&found).try_into().unwrap();
        view["key"].as_str().unwrap().to_owned()
    };
    for locale in ["C.UTF-8", "C"] {
        let table = list(&database, &[]).env("LC_ALL", locale).run();
        table.assert_code(0).assert_stderr("");
        for (namespace, name, _) in &holders {
            let key = key(*namespace, name);
            let before_key =
                |line: &str| Some(line.split_once(&format!("  {key}  "))?.0.to_owned());
            let shown = table.stdout.lines().find_map(before_key).unwrap();
            assert_eq!(
                pasted(&shown),
                key,
                "{shown:?} for {name:?} in {namespace:?}"
            );
        }
    }
    drop(holders);
    let _unnamed = holding(&database, "pg_advisory_lock(-42), pg_advisory_lock(-1, 5)");
    let narrow = list(&database, &[]).env("COLUMNS", "50").run();
    let shown = narrow
        .stdout
        .lines()
        .skip(1)
        .filter_map(|line| line.split_once(" held "));
    let keys: BTreeSet<String> = shown.map(|(shown, _)| pasted(shown)).collect();
    assert_eq!(keys, ["-42".to_owned(), "-1,5".to_owned()].into());
}

#[test]
fn wide_adds_columns() {
    let database = database();
    let mut holder = holding(&database, "pg_advisory_lock(42)");
    let pid = backend_pid(&mut holder);
    let _waiter = Waiter::start(Server::shared(), &database, "pg_advisory_lock(42)");
    let finished = list(&database, &["--wide"]).run();
    finished.assert_code(0).assert_stderr("");
    let lines: Vec<&str> = finished.stdout.lines().collect();
    finished.assert(lines.len() == 3, "a header and two lines");
    assert!(lines[0].ends_with(&header_end(lines[0])), "{finished:?}");
    let waiting = lines
        .iter()
        .find(|line| line.contains(" waiting "))
        .unwrap();
    let cells: Vec<&str> = waiting.split_whitespace().collect();
    let more = ["test", "[local]", &database, &pid.to_string()];
    assert!(cells.ends_with(&more), "{finished:?}");
}

/// The wide table's last titles with the blanks that stand between them in this header.
fn header_end(header: &str) -> String {
    let start = header.find("APPLICATION").expect("a wide header");
    let titles: Vec<&str> = header[start..].split("  ").map(str::trim).collect();
    let titles: Vec<&str> = titles
        .into_iter()
        .filter(|title| !title.is_empty())
        .collect();
    assert_eq!(titles, ["APPLICATION", "CLIENT", "DATABASE", "BLOCKED BY"]);
    header[start..].to_owned()
}

#[test]
fn nothing_that_a_session_says_of_itself_reaches_the_terminal_raw() {
    let database = database();
    let _ours = held_by_pglock(&database, None, "a\nb\x1b[2J\u{202e}c");
    let mut liar = holding(&database, "pg_advisory_lock(42)");
    let lie = "/*pglock host=%1b]0;x%07&pid=1&command=%1b[2J%0a%c2%9b1m\u{2066}x*/
        SET application_name = E'pglock: #42 (\x1b[2J\\nh:1)'";
    liar.batch_execute(lie).unwrap();
    for options in [&[][..], &["--wide"]] {
        let finished = list(&database, options).run();
        finished.assert_code(0).assert_stderr("");
        let lines = finished.stdout.lines().count();
        finished
            .assert(lines == 3, "a header and two lines")
            .assert_stdout_has("$'a\\nb\\x1b[2J\\xe2\\x80\\xaec'");
        let raw = |c: char| (c.is_control() && c != '\n') || "\u{202e}\u{2066}".contains(c);
        finished.assert(!finished.stdout.contains(raw), "no control character");
    }
}

#[test]
fn on_a_terminal_the_table_is_no_wider_than_the_window() {
    let database = database();
    let _holders = [
        held_by_pglock(&database, None, &"long name ".repeat(20)),
        held_by_pglock(&database, Some("ns"), &"漢".repeat(30)),
        held_by_pglock(&database, None, &"x".repeat(150)),
    ];
    for options in [&[][..], &["--wide"]] {
        let without_colours = list(&database, options).env("NO_COLOR", "1");
        let finished = without_colours.on_terminal().wait();
        finished.assert_code(0).assert_stdout_has("NAME");
        for line in finished.stdout.lines() {
            let wide = line.chars().filter(|c| *c >= '\u{3000}').count();
            let width = line.trim_end_matches('\r').chars().count() + wide;
            finished.assert(width <= 80, &format!("at most 80 columns in {line:?}"));
        }
    }
}

#[test]
fn colours_are_for_terminals_that_nobody_asked_to_stay_plain() {
    let database = database();
    let _foreign = holding(&database, "pg_advisory_lock(42)");
    let shown = |name: &str, value: &str| {
        let around = format!("{name}={value} exec \"$@\"");
        let bash = ["bash", "-c", &around, "bash"];
        let finished = list(&database, &[]).through(&bash).on_terminal().wait();
        finished.assert_code(0).assert_stdout_has(" 42 ");
        finished.stdout
    };
    assert!(shown("TERM", "xterm").starts_with("\x1b[1mNAME\x1b[0m "));
    assert!(!shown("NO_COLOR", "1").contains('\x1b'));
    assert!(!shown("TERM", "dumb").contains('\x1b'));
    let piped = list(&database, &[]).env("TERM", "xterm").run();
    piped.assert(!piped.stdout.contains('\x1b'), "no colour");
}

#[test]
fn databases_are_told_apart_where_there_are_several() {
    let databases = [database(), database()];
    let _sessions = databases
        .each_ref()
        .map(|database| holding(database, "pg_advisory_lock(42)"));
    let finished = list(&databases[0], &["-a"]).run();
    finished
        .assert_code(0)
        .assert_stderr("")
        .assert_stdout_has("DATABASE");
    for database in &databases {
        finished.assert_stdout_has(database);
    }
}

#[test]
fn a_slot_is_shown_behind_the_name_and_waiters_beneath() {
    let database = database();
    let _holder = pglock(&database).args(["--slots", "1"]).hold("jobs");
    let waiting = pglock(&database).args(["run", "--slots", "1", "jobs", "true"]);
    let _waiting = waiting.spawn();
    let rows = until("both", || {
        let finished = list(&database, &["--tree"]).run();
        finished.assert_code(0).assert_stderr("");
        let rows = finished.stdout.lines().skip(1).map(str::to_owned);
        let rows: Vec<String> = rows.collect();
        (rows.len() == 2).then_some(rows)
    });
    assert!(rows[0].starts_with("jobs (0/1)  "), "{rows:#?}");
    assert!(rows[1].starts_with("└─ jobs (?/1)  "), "{rows:#?}");
}
