//! The password that is asked for on the terminal, as psql asks.

use std::fs;
use std::process::Command;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use crate::support::{
    Finished, Pglock, PoolMode, Pooler, Pty, Server, Shutdown, assert_free, program, until,
};

const PROMPT: &str = "Password for user guarded: ";
const SECRET: &str = "s3cret";

/// The verbs that connect, and what each comes to where nobody holds the lock.
fn verbs(lock: &str) -> [(Vec<&str>, i32); 4] {
    [
        (vec!["run", lock, "echo", "ran"], 0),
        (vec!["try", lock, "echo", "ran"], 0),
        (vec!["list", "-q", lock], 1),
        (vec!["release", "-f", lock], 1),
    ]
}

#[test]
fn every_verb_asks_for_a_password_that_is_wanted_and_not_known() {
    for (words, code) in verbs("asked") {
        let mut terminal = guarded().args(&words).on_terminal();
        terminal.wait_for(PROMPT);
        terminal.write(b"s3cret\n");
        let ran = match words[0] {
            "run" | "try" => "ran\r\n",
            "release" => "pglock: asked: nobody holds it\r\n",
            _ => "",
        };
        terminal
            .wait()
            .assert_code(code)
            .assert_stdout(&format!("{PROMPT}\r\n{ran}"));
    }
}

#[test]
fn psql_asks_in_the_same_words() {
    let mut psql = Command::new(program("psql"));
    psql.env_clear()
        .envs(server().env())
        .env("PATH", std::env::var_os("PATH").unwrap())
        .env("HOME", "/nonexistent")
        .env("PGUSER", "guarded")
        .args(["-XAtc", "SELECT 'ran'"]);
    let mut terminal = Pty::start(&mut psql, None);
    terminal.wait_for(PROMPT);
    terminal.write(b"s3cret\n");
    terminal
        .wait()
        .assert_code(0)
        .assert_stdout(&format!("{PROMPT}\r\nran\r\n"));
}

#[test]
fn the_terminal_is_asked_whatever_the_standard_streams_are() {
    let script = "exec \"$@\" </dev/null 2>&1 | cat";
    let mut terminal = guarded()
        .through(&["sh", "-c", script, "sh"])
        .args(["run", "streams", "echo", "ran"])
        .on_terminal();
    terminal.wait_for(PROMPT);
    terminal.write(b"s3cret\n");
    terminal
        .wait()
        .assert_code(0)
        .assert_stdout(&format!("{PROMPT}\r\nran\r\n"));
}

#[test]
fn a_known_password_is_not_asked_for() {
    for (password, code) in [(SECRET, 0), ("wrong", 121)] {
        let known = guarded().env("PGPASSWORD", password);
        let finished = known.args(["run", "known", "true"]).on_terminal().wait();
        finished.assert_code(code);
        finished.assert(!finished.stdout.contains("Password for"), "no question");
    }
}

#[test]
fn a_wrong_or_an_empty_answer_is_final() {
    for (answer, reason) in [
        (&b"s3creT\n"[..], "password authentication failed"),
        (b"\n", "the server wants a password"),
        (b"\x04", "the server wants a password"),
    ] {
        let mut terminal = guarded()
            .args(["run", "wrong", "echo", "ran"])
            .on_terminal();
        terminal.wait_for(PROMPT);
        terminal.write(answer);
        let finished = terminal.wait();
        finished.assert_code(121).assert_stdout_has(reason);
        let questions = finished.stdout.matches("Password for").count();
        finished.assert(questions == 1, "one question");
        let is_hidden = !finished.stdout.contains("s3cre") && !finished.stdout.contains("ran");
        finished.assert(is_hidden, "no password shown, and nothing run");
    }
}

#[test]
fn without_a_terminal_or_by_request_nobody_is_asked() {
    for (words, _) in verbs("unasked") {
        // The harness starts what has no terminal in a session of its own.
        let alone = guarded().through(&["setsid", "--wait"]).args(&words).run();
        assert_unasked(&alone, &alone.stderr);
        let told = guarded()
            .args(&words[..1])
            .arg("--no-password")
            .args(&words[1..])
            .on_terminal()
            .wait();
        assert_unasked(&told, &told.stdout);
    }
}

#[track_caller]
fn assert_unasked(finished: &Finished, said: &str) {
    finished.assert_code(121);
    let names_ways_out = ["PGPASSWORD", "~/.pgpass"]
        .iter()
        .all(|way| said.contains(way));
    finished.assert(
        names_ways_out && said.lines().count() == 1 && !said.contains("Password for"),
        "one message that names the ways out",
    );
}

#[test]
fn of_password_and_no_password_the_last_one_counts() {
    let finished = guarded()
        .args(["list", "--password", "--no-password"])
        .on_terminal()
        .wait();
    assert_unasked(&finished, &finished.stdout);
    for option in ["-W", "--password"] {
        // One that is known is asked for all the same, and what is typed counts.
        let mut terminal = guarded()
            .env("PGPASSWORD", "wrong")
            .args(["list", "-q", option, "--no-password", option, "forced"])
            .on_terminal();
        terminal.wait_for(PROMPT);
        terminal.write(b"s3cret\n");
        terminal
            .wait()
            .assert_code(1)
            .assert_stdout(&format!("{PROMPT}\r\n"));
    }
}

#[test]
fn the_time_spent_typing_is_not_the_servers() {
    let mut terminal = guarded()
        .env("PGCONNECT_TIMEOUT", "3")
        .args(["list", "-q", "typing"])
        .on_terminal();
    terminal.wait_for(PROMPT);
    let asked = Instant::now();
    until("more than the connect timeout", || {
        asked.elapsed() > Duration::from_millis(3500)
    });
    terminal.write(b"s3cret\n");
    terminal.wait().assert_code(1);
}

#[test]
fn a_signal_while_the_password_is_asked_for_ends_pglock_and_restores_the_terminal() {
    // The shell shows the terminal's settings when pglock has ended; it is not ended by what ends pglock.
    let script = "trap : INT; \"$@\"; echo \"status $?\"; stty -a; exit 0";
    for (words, _) in verbs("interrupted") {
        let launcher = ["env", "--default-signal", "sh", "-c", script, "sh"];
        let mut terminal = guarded().through(&launcher).args(&words).on_terminal();
        terminal.wait_for(PROMPT);
        terminal.write(b"\x03");
        terminal.wait_for("status 130");
        terminal.wait_for(" echo ");
        let finished = terminal.wait();
        finished.assert_code(0);
        finished.assert(!finished.stdout.contains("ran"), "nothing run");

        let mut terminal = guarded().args(&words).on_terminal();
        terminal.wait_for(PROMPT);
        terminal.signal(Signal::SIGTERM);
        terminal
            .wait()
            .assert_code(143)
            .assert_stdout(&format!("{PROMPT}\r\n"));
    }
    assert_free(server(), "interrupted");
}

#[test]
fn a_timeout_ends_the_question_too() {
    let mut terminal = guarded()
        .args(["run", "-w", "3s", "patience", "echo", "ran"])
        .on_terminal();
    terminal.wait_for(PROMPT);
    let finished = terminal.wait();
    finished
        .assert_code(121)
        .assert_stdout_has("the time given by --timeout is over");
}

#[test]
fn one_answer_does_for_all_sessions_of_a_run() {
    let server = server();
    let (rules, users) = (
        server.socket_dir().join("pooler_hba"),
        server.socket_dir().join("pooler_users"),
    );
    fs::write(
        &rules,
        "local all postgres trust\nlocal all guarded password\n",
    )
    .unwrap();
    fs::write(
        &users,
        format!("\"guarded\" \"{SECRET}\"\n\"postgres\" \"\"\n"),
    )
    .unwrap();
    let rules = format!("auth_type = hba\nauth_hba_file = {}", rules.display());
    let users = format!("auth_file = {}", users.display());
    let pooler = Pooler::start(server, PoolMode::Session, 5, &[&rules, &users]);
    let mut terminal = guarded()
        .envs(pooler.env())
        .env("PGUSER", "guarded")
        .args(["run", "-v", "pooled", "echo", "ran"])
        .on_terminal();
    terminal.wait_for(PROMPT);
    terminal.write(b"s3cret\n");
    let finished = terminal.wait();
    finished
        .assert_code(0)
        .assert_stdout_has("a pooler stands between")
        .assert_stdout_has("ran\r\n");
    let questions = finished.stdout.matches("Password for").count();
    finished.assert(questions == 1, "one question");
}

#[test]
fn one_answer_does_for_all_shards() {
    for number in 0..2 {
        server().execute(&format!("CREATE DATABASE asked_{number}"));
    }
    let nobody = "pglock: my_lock: nobody holds it\r\npglock: nightly-report: nobody holds it\r\n";
    for (words, said) in [
        (&["list", "-q", "*"][..], ""),
        (&["release", "-f", "my_lock", "nightly-report"], nobody),
    ] {
        let template = ["-d", "asked_{shard:2}"];
        let mut terminal = guarded().args(words).args(template).on_terminal();
        terminal.wait_for(PROMPT);
        terminal.write(b"s3cret\n");
        terminal
            .wait()
            .assert_code(1)
            .assert_stdout(&format!("{PROMPT}\r\n{said}"));
    }
}

fn guarded() -> Pglock {
    Pglock::new(server()).env("PGUSER", "guarded")
}

/// A server where the role `guarded` needs a password.
fn server() -> &'static Server {
    static SERVER: OnceLock<Server> = OnceLock::new();
    SERVER.get_or_init(|| {
        let server = Server::start();
        server.execute(&format!("CREATE ROLE guarded LOGIN PASSWORD '{SECRET}'"));
        let rules = server.data_dir().join("pg_hba.conf");
        let others = fs::read_to_string(&rules).unwrap();
        // The plain password is hashed by the server, which takes less time than an unoptimized build's SCRAM.
        let own = "local all guarded password\nhost all guarded 127.0.0.0/8 password\n";
        fs::write(&rules, own.to_owned() + &others).unwrap();
        server.stop(Shutdown::Fast);
        server.start_again();
        server
    })
}
