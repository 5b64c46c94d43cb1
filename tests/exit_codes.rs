//! Every exit status of `run` and `try`, and what is said along with it.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use crate::support::{
    Finished, Pglock, Proxy, Server, Shutdown, Watchdog, holders, until, waiters,
};

#[test]
fn the_status_of_the_command_is_passed_on() {
    for code in [0, 1, 2, 75].into_iter().chain(120..=127).chain([255]) {
        let script = format!("exit {code}");
        run(&["run", "exit-status", "sh", "-c", &script])
            .assert_code(code)
            .assert_silent();
        run(&["try", "exit-status", "-c", &script])
            .assert_code(code)
            .assert_silent();
    }
}

#[test]
fn a_command_killed_by_a_signal_gives_128_and_its_number() {
    for (signal, number) in [("TERM", 15), ("KILL", 9), ("SEGV", 11)] {
        // No core is to be left behind.
        let script = format!("ulimit -c 0; kill -{signal} $$; echo survived");
        run(&["run", "exit-killed", "sh", "-c", &script])
            .assert_code(128 + number)
            .assert_silent();
        run(&["run", "exit-killed", "-c", &script])
            .assert_code(128 + number)
            .assert_silent();
    }
}

#[test]
fn a_conflict_exit_code_does_not_touch_the_status_of_the_command() {
    for code in [0, 75] {
        run(&["run", "-E", "9", "exit-own", "-c", &format!("exit {code}")])
            .assert_code(code)
            .assert_silent();
    }
}

#[test]
fn a_command_that_is_not_found_gives_127_and_the_lock_is_free() {
    let script = "; -c STRING runs a line of the shell's";
    for (program, hint) in [
        ("no-such-program", ""),
        ("./no/such/program", ""),
        ("", ""),
        ("true; echo ran", script),
        ("A=1", script),
    ] {
        run(&["run", "exit-127", "--", program])
            .assert_code(127)
            .assert_stdout("")
            .assert_stderr(&format!("pglock: {program}: command not found{hint}\n"));
        assert_free("exit-127");
    }
}

#[test]
fn a_program_that_the_shell_does_not_find_is_the_shells_matter() {
    run(&["run", "exit-127-shell", "-c", "no-such-program"])
        .assert_code(127)
        .assert_stdout("")
        .assert_stderr_has("no-such-program: not found");
    assert_free("exit-127-shell");
}

#[test]
fn a_file_that_is_no_program_gives_126_and_the_lock_is_free() {
    let scratch = Watchdog::start();
    let directory = scratch.directory();
    let path = |name: &str| directory.join(name);
    for (name, bytes, mode) in [
        ("plain", &b"#!/bin/sh\necho ran\n"[..], 0o644),
        ("junk", b"\x00\x01\xfe\xff", 0o755),
        ("empty", b"", 0o755),
        ("script-without-interpreter", b"echo ran\n", 0o755),
    ] {
        make_file(&path(name), bytes, mode);
        assert_cannot_execute("exit-126", &path(name));
    }
    assert_cannot_execute("exit-126", directory);
}

#[test]
fn a_script_without_interpreter_is_not_run_when_found_in_path_either() {
    let scratch = Watchdog::start();
    let directory = scratch.directory();
    make_file(&directory.join("plain-script"), b"echo ran\n", 0o755);
    let finished = pglock()
        .env("PATH", directory)
        .args(["run", "exit-126-path", "plain-script"])
        .run();
    finished
        .assert_code(126)
        .assert_stdout("")
        .assert_stderr_has("pglock: plain-script: cannot execute: ")
        .assert_one_message();
    assert_free("exit-126-path");
}

#[test]
fn a_missing_interpreter_is_not_run_by_another() {
    let scratch = Watchdog::start();
    let script = scratch.directory().join("script");
    make_file(&script, b"#!/no/such/interpreter\necho ran\n", 0o755);
    run(&["run", "exit-interpreter", script.to_str().unwrap()])
        .assert_code(127)
        .assert_stdout("")
        .assert_one_message();
    assert_free("exit-interpreter");
}

#[test]
fn a_server_that_is_down_gives_121() {
    let server = Server::start();
    server.stop(Shutdown::Fast);
    let socket = server.socket_dir().to_str().unwrap();
    let port = server.port();
    // A server that ends in an orderly way takes its socket along.
    for (host, reason) in [
        (socket, "no such file or directory"),
        (server.host(), "connection refused"),
    ] {
        for verb in ["run", "try"] {
            Pglock::new(&server)
                .env("PGHOST", host)
                .args([verb, "exit-down", "echo", "ran"])
                .run()
                .assert_code(121)
                .assert_stdout("")
                .assert_stderr(&format!(
                    "pglock: cannot connect to {host} port {port}: {reason}\n"
                ));
        }
    }
}

#[test]
fn where_no_host_is_given_it_is_said_how_to_give_one() {
    let nowhere = Pglock::without_server().env("PGPORT", "1").arg("list");
    let refused = nowhere.run();
    let hint = " (no host is given: -h, -d, PGLOCK_URL or PGHOST)\n";
    refused.assert_code(121).assert_one_message();
    refused.assert(refused.stderr.ends_with(hint), hint);
}

#[test]
fn a_wrong_password_gives_121() {
    let server = Server::with(&["password_encryption = 'scram-sha-256'"]);
    server.execute("CREATE ROLE alice LOGIN PASSWORD 'right'");
    let rules = "local all postgres trust\nlocal all all scram-sha-256\n";
    fs::write(server.data_dir().join("pg_hba.conf"), rules).unwrap();
    server.stop(Shutdown::Fast);
    server.start_again();

    let with_password = |password: &str| {
        Pglock::new(&server)
            .env("PGUSER", "alice")
            .env("PGPASSWORD", password)
            .args(["run", "exit-password", "echo", "ran"])
            .run()
    };
    with_password("right")
        .assert_code(0)
        .assert_stdout("ran\n")
        .assert_stderr("");
    let refused = with_password("wr0ng");
    refused
        .assert_code(121)
        .assert_stdout("")
        .assert_stderr_has("password authentication failed for user \"alice\"")
        .assert_one_message()
        .assert(!refused.stderr.contains("wr0ng"), "no password");
    Pglock::new(&server)
        .env("PGUSER", "alice")
        .args(["run", "exit-password", "echo", "ran"])
        .run()
        .assert_code(121)
        .assert_stdout("")
        .assert_one_message();
}

#[test]
fn an_unknown_database_gives_121() {
    pglock()
        .env("PGDATABASE", "nowhere")
        .args(["run", "exit-database", "echo", "ran"])
        .run()
        .assert_code(121)
        .assert_stdout("")
        .assert_stderr_has("database \"nowhere\" does not exist")
        .assert_one_message();
}

#[test]
fn a_held_lock_gives_75_and_one_line_that_names_the_holder() {
    let mut holder = pglock()
        .args(["run", "exit-busy", "sh", "-c", "echo ready; exec cat"])
        .spawn();
    holder.wait_line("ready");
    let backend = holders(&mut Server::shared().client(), "exit-busy");
    let host = nix::unistd::gethostname().unwrap();
    let before = format!(
        "pglock: exit-busy is held by postgres on {} pid {} (backend {}) for ",
        host.to_string_lossy(),
        holder.pid(),
        backend[0]
    );
    let after = ", running sh -c 'echo ready; exec cat'; to free it: pglock release exit-busy\n";

    for words in [
        &["try", "exit-busy", "echo", "ran"][..],
        &["try", "exit-busy", "-c", "echo ran"],
        &["run", "-n", "exit-busy", "echo", "ran"],
        &["run", "--nonblock", "exit-busy", "-c", "echo ran"],
        &["run", "-w", "0", "exit-busy", "echo", "ran"],
        &["run", "-w", "0s", "exit-busy", "-c", "echo ran"],
    ] {
        let finished = run(words);
        finished.assert_code(75).assert_stdout("");
        let age = finished.stderr.strip_prefix(&before);
        let age = age.and_then(|rest| rest.strip_suffix(after));
        finished.assert(age.is_some_and(is_age), &format!("{before}AGE{after}"));
    }
    holder
        .let_go()
        .assert_code(0)
        .assert_stdout("ready\n")
        .assert_stderr("");
}

#[test]
fn the_conflict_exit_code_replaces_75() {
    let holder = pglock().hold("exit-conflict");
    for (code, words) in [
        (9, &["try", "-E", "9"][..]),
        (0, &["try", "-E", "0"]),
        (255, &["run", "-n", "--conflict-exit-code", "255"]),
        (7, &["run", "-w", "0", "-E", "7"]),
    ] {
        let job = ["exit-conflict", "echo", "ran"];
        run(&[words, &job].concat())
            .assert_code(code)
            .assert_stdout("")
            .assert_stderr_has("pglock: exit-conflict is held by postgres on ")
            .assert_one_message();
    }
    holder.let_go().assert_code(0).assert_stderr("");
}

#[test]
fn quiet_says_nothing_of_a_held_lock() {
    let holder = pglock().hold("exit-quiet");
    for words in [&["try", "-q"][..], &["run", "-n", "--quiet"]] {
        let job = ["exit-quiet", "echo", "ran"];
        run(&[words, &job].concat()).assert_code(75).assert_silent();
    }
    holder.let_go().assert_code(0).assert_stderr("");
}

#[test]
fn a_wait_that_times_out_takes_its_time_and_gives_75() {
    let holder = pglock().hold("exit-timeout");
    // Long enough to connect on a busy machine: the time is for both, and without a connection the status is 121.
    let limit = Duration::from_secs(1);
    let start = |options: &[&str]| {
        let job = ["exit-timeout", "echo", "ran"];
        pglock().arg("run").args(options).args(job).spawn()
    };
    let plain = start(&["-w", "1"]);
    let with_code = start(&["--timeout", "1000ms", "-E", "7"]);
    let quiet = start(&["-w1s", "-q"]);
    for (running, code) in [(plain, 75), (with_code, 7)] {
        let finished = running.wait();
        finished
            .assert_code(code)
            .assert_stdout("")
            .assert_stderr_has("pglock: exit-timeout is held by postgres on ")
            .assert_one_message()
            .assert(finished.took >= limit, "1 s")
            .assert(finished.took < 5 * limit, "less than 5 s");
    }
    let finished = quiet.wait();
    finished
        .assert_code(75)
        .assert_silent()
        .assert(finished.took >= limit, "1 s");
    holder.let_go().assert_code(0).assert_stderr("");
}

#[test]
fn a_wait_within_its_time_runs_the_command() {
    let mut client = Server::shared().client();
    let holder = pglock().hold("exit-in-time");
    let waiter = pglock()
        .args(["run", "-w", "50s", "exit-in-time", "-c", "echo ran; exit 3"])
        .spawn();
    until("the waiter", || {
        waiters(&mut client, "exit-in-time").len() == 1
    });
    holder.let_go().assert_code(0).assert_stderr("");
    waiter
        .wait()
        .assert_code(3)
        .assert_stdout("ran\n")
        .assert_stderr("");
}

#[test]
fn the_lock_is_free_for_the_next_one_once_pglock_has_ended() {
    for _ in 0..50 {
        for verb in ["run", "try"] {
            run(&[verb, "exit-next", "true"])
                .assert_code(0)
                .assert_silent();
        }
    }
}

#[test]
fn pglock_does_not_end_before_the_server_has_confirmed_the_release() {
    let proxy = Proxy::to(Server::shared());
    let mut running = pglock()
        .envs(proxy.env())
        .env("PGSSLMODE", "disable")
        .hold("exit-confirmed");
    proxy.freeze();
    running.close_stdin();
    until("the unlock, behind start-up and lock", || {
        proxy.flights() == [3]
    });
    assert_eq!(
        holders(&mut Server::shared().client(), "exit-confirmed").len(),
        1
    );
    assert!(running.is_running());
    proxy.thaw();
    running
        .wait()
        .assert_code(0)
        .assert_stdout("ready\n")
        .assert_stderr("");
    assert_free("exit-confirmed");
}

fn pglock() -> Pglock {
    Pglock::new(Server::shared())
}

#[track_caller]
fn run(words: &[&str]) -> Finished {
    pglock().args(words).run()
}

#[track_caller]
fn assert_free(name: &str) {
    assert_eq!(holders(&mut Server::shared().client(), name), [0; 0]);
}

#[track_caller]
fn assert_cannot_execute(lock: &str, path: &Path) {
    let path = path.to_str().unwrap();
    run(&["run", lock, path])
        .assert_code(126)
        .assert_stdout("")
        .assert_stderr_has(&format!("pglock: {path}: cannot execute: "))
        .assert_one_message();
    assert_free(lock);
}

fn make_file(path: &Path, bytes: &[u8], mode: u32) {
    fs::write(path, bytes).unwrap();
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

/// Whole seconds, as an age is while it is short.
fn is_age(text: &str) -> bool {
    text.strip_suffix('s')
        .is_some_and(|number| number.parse::<u32>().is_ok())
}
