//! `list --watch`: one look after another over one session, on a terminal that is left as it was found.

use std::io::pipe;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use crate::list::{database, held_by_pglock, holding, list};
use crate::support::{Interactive, Pglock, Proxy, Pty, Running, Server, until};

/// The alternate screen without a cursor, and back.
const ENTERED: &str = "\x1b[?1049h\x1b[?25l";
const LEFT: &str = "\x1b[?25h\x1b[?1049l";
/// Where every picture begins.
const HOME: &str = "\x1b[H";

/// Longer than any test, so that only what it does makes for another look.
const NEVER: &str = "--watch=1h";

#[test]
fn the_table_is_painted_anew_until_q() {
    let database = database();
    let mut terminal = watching(&database, "--watch=0.1");
    terminal.wait_for(ENTERED);
    terminal.wait_for("0 held, 0 waiting");
    let holder = holding(&database, "pg_advisory_lock(4242)");
    terminal.wait_for("1 held, 0 waiting");
    terminal.wait_for(" 4242 ");
    drop(holder);
    terminal.wait_for("0 held, 0 waiting");
    terminal.write(b"q");
    let finished = terminal.wait();
    finished.assert_code(0);
    finished.assert(finished.stdout.ends_with(LEFT), "the screen from before");
}

#[test]
fn however_it_ends_the_terminal_is_as_it_was() {
    let database = database();
    let around = r#"trap : INT QUIT; before=$(stty -g); "$@"; status=$?
        [ "$before" = "$(stty -g)" ] && echo "same settings, status $status""#;
    for (typed, signal, status) in [
        (&b"q"[..], None, 0),
        (b"\x03", None, 130),
        (b"\x1c", None, 131),
        (b"", Some(Signal::SIGTERM), 143),
        (b"", Some(Signal::SIGHUP), 129),
    ] {
        let mut terminal = list(&database, &[NEVER])
            .through(&["bash", "-c", around, "bash"])
            .on_terminal();
        terminal.wait_for("0 held");
        terminal.write(typed);
        if let Some(signal) = signal {
            let watching = crate::support::child_named(terminal.pid(), "pglock").unwrap();
            nix::sys::signal::kill(watching, signal).unwrap();
        }
        let finished = terminal.wait();
        finished
            .assert_code(0)
            .assert_stdout_has(LEFT)
            .assert_stdout_has(&format!("same settings, status {status}\r\n"));
    }
}

#[test]
fn ctrl_z_leaves_the_screen_until_fg() {
    let mut shell = Interactive::start(Interactive::SHELLS[0], "watched");
    shell.enter(&format!("${{UNDER%% *}} list {NEVER}"));
    shell.terminal.wait_for(ENTERED);
    shell.terminal.wait_for("q quits");
    shell.terminal.write(b"\x1a");
    shell.terminal.wait_for(LEFT);
    shell.terminal.wait_for("prompt> ");
    shell.enter("fg");
    shell.terminal.wait_for(ENTERED);
    shell.terminal.wait_for("q quits");
    shell.terminal.write(b"q");
    shell.terminal.wait_for(LEFT);
    shell.terminal.wait_for("prompt> ");
    shell.leave();
}

#[test]
fn space_and_another_size_make_for_another_look() {
    let database = database();
    let _holder = held_by_pglock(&database, None, &"long name ".repeat(20));
    let _others = holding(
        &database,
        "count(pg_advisory_lock(n)) FROM generate_series(1, 50) n",
    );
    let mut terminal = watching(&database, NEVER);
    terminal.wait_for("51 held");
    terminal.wait_for("and 32 more");
    terminal.write(b" ");
    terminal.wait_for(HOME);
    terminal.wait_for("and 32 more");
    terminal.resize(12, 40);
    terminal.wait_for("and 44 more");
    terminal.write(b"q");
    let finished = terminal.wait();
    finished.assert_code(0);
    let last = finished.stdout.rsplit(HOME).next().unwrap();
    let picture = last.split("\x1b[J").next().unwrap();
    let lines: Vec<&str> = picture.lines().collect();
    assert_eq!(lines.len(), 11, "{lines:#?}");
    for line in lines {
        assert!(plain(line).chars().count() <= 40, "{line:?}");
    }
}

#[test]
fn what_a_session_says_of_itself_is_painted_harmless() {
    let database = database();
    let _ours = held_by_pglock(&database, None, "a\nb\x1b[2J\u{202e}c");
    let mut terminal = watching(&database, NEVER);
    terminal.wait_for("$'a\\nb\\x1b[2J\\xe2\\x80\\xaec'");
    terminal.write(b"q");
    let finished = terminal.wait();
    finished.assert_code(0);
    finished.assert(!finished.stdout.contains("\x1b[2J"), "nothing erased");
}

#[test]
fn one_session_serves_every_look_whatever_the_role_has_for_idle_ones() {
    let server = Server::shared();
    let database = database();
    let role = server.role("NOSUPERUSER");
    if server.version_num() >= 140_000 {
        server.execute(&format!(
            "ALTER ROLE {role} SET idle_session_timeout = '50ms'"
        ));
    }
    let proxy = Proxy::to(server);
    let mut terminal = list(&database, &["--watch=0.2", "-U", &role])
        .envs(proxy.env())
        .on_terminal();
    for _ in 0..5 {
        terminal.wait_for(HOME);
    }
    terminal.write(b"q");
    terminal.wait().assert_code(0);
    assert_eq!(proxy.flights().len(), 1);
}

#[test]
fn a_lost_connection_is_said_and_made_again() {
    let database = database();
    let proxy = Proxy::to(Server::shared());
    let mut terminal = list(&database, &["--watch=0.1"])
        .envs(proxy.env())
        .on_terminal();
    terminal.wait_for("0 held");
    let _holder = holding(&database, "pg_advisory_lock(4242)");
    terminal.wait_for(" 4242 ");
    proxy.reset();
    terminal.wait_for("trying again");
    // What was known stays.
    terminal.wait_for(" 4242 ");
    until("another session", || proxy.flights().len() > 1);
    terminal.wait_for(HOME);
    terminal.wait_for("1 held");
    terminal.write(b"q");
    terminal.wait().assert_code(0);
}

#[test]
fn a_server_that_is_full_is_not_asked_ten_times_a_second() {
    let server = Server::start();
    let role = server.role("");
    let mut terminal = Pglock::new(&server)
        .args(["list", "--watch=0.1", "-U", &role])
        .on_terminal();
    terminal.wait_for("0 held");
    server.execute(&format!("ALTER ROLE {role} CONNECTION LIMIT 0"));
    server.execute(&format!(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '{role}'"
    ));
    let refused = || server.log().matches("too many connections").count();
    until("a refusal", || refused() > 0);
    let begun = Instant::now();
    until("two more", || refused() > 2);
    let took = begun.elapsed();
    assert!(took > Duration::from_millis(1500), "{took:?}");
    server.execute(&format!("ALTER ROLE {role} CONNECTION LIMIT 5"));
    until("a session", || {
        let sessions = "SELECT FROM pg_stat_activity WHERE usename = $1";
        !server
            .client()
            .query(sessions, &[&role])
            .unwrap()
            .is_empty()
    });
    terminal.write(b"q");
    terminal.wait().assert_code(0);
}

#[test]
fn exported_columns_do_not_garble_a_screen_that_is_narrower() {
    let database = database();
    let _holder = held_by_pglock(&database, None, &"long name ".repeat(20));
    let mut terminal = list(&database, &[NEVER])
        .env("COLUMNS", "200")
        .on_terminal();
    terminal.wait_for("1 held");
    terminal.write(b"q");
    let finished = terminal.wait();
    finished.assert_code(0);
    let picture = finished.stdout.rsplit(HOME).next().unwrap();
    for line in picture.split("\x1b[J").next().unwrap().lines() {
        assert!(plain(line).chars().count() <= 80, "{line:?}");
    }
}

#[test]
fn without_a_terminal_each_look_is_an_output_of_its_own() {
    let database = database();
    let _holder = holding(&database, "pg_advisory_lock(4242)");
    let mut running = list(&database, &["--json", "--watch=0.1"]).spawn();
    running.wait_output("three looks", |running| {
        running.stdout_so_far().matches("\"4242\"").count() >= 3
    });
    running.signal(Signal::SIGTERM);
    let finished = running.wait();
    finished.assert_code(143).assert_stderr("");
    let looks = serde_json::Deserializer::from_str(&finished.stdout).into_iter();
    for look in looks {
        let look: serde_json::Value = look.unwrap();
        assert_eq!(look[0]["key"], "4242");
    }

    let mut running = list(&database, &["--watch=0.1"])
        .env("TERM", "xterm")
        .spawn();
    running.wait_output("three tables", |running| {
        running.stdout_so_far().matches("NAME").count() >= 3
    });
    running.signal(Signal::SIGTERM);
    let finished = running.wait();
    finished.assert_code(143).assert_stderr("");
    finished.assert(!finished.stdout.contains('\x1b'), "plain text");
}

#[test]
fn without_a_terminal_a_lost_connection_or_reader_ends_it() {
    let database = database();
    let proxy = Proxy::to(Server::shared());
    let mut running = list(&database, &["--json", "--watch=0.1"])
        .envs(proxy.env())
        .spawn();
    running.wait_output("a look", |running| running.stdout_so_far().contains("[]"));
    proxy.reset();
    let finished = running.wait();
    finished.assert_code(121).assert_one_message();

    let (reader, stdout) = pipe().unwrap();
    let mut pglock = list(&database, &["--watch=0.1"]);
    let running = Running::start_as_is(pglock.command().stdout(stdout));
    // The builder holds the writing end of the pipe.
    drop(pglock);
    drop(reader);
    running.wait().assert_code(0);
}

#[test]
fn a_dumb_terminal_is_not_painted() {
    let database = database();
    let _holder = holding(&database, "pg_advisory_lock(4242)");
    let around = r#"TERM=dumb exec "$@""#;
    let mut terminal = list(&database, &["--watch=0.1"])
        .through(&["bash", "-c", around, "bash"])
        .on_terminal();
    terminal.wait_for(" 4242 ");
    terminal.wait_for(" 4242 ");
    terminal.write(b"\x03");
    let finished = terminal.wait();
    finished.assert_signal(2);
    finished.assert(!finished.stdout.contains('\x1b'), "plain text");
}

fn watching(database: &str, watch: &str) -> Pty {
    list(database, &[watch]).on_terminal()
}

/// A line without what styles and erases it.
fn plain(line: &str) -> String {
    let mut parts = line.split("\x1b[");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| {
        text + part.split_once(['m', 'K']).map_or("", |(_, rest)| rest)
    })
}
