//! Ways of sharing out work: how long a job may take, how long its lock is kept, who joins the queue, and when.

use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use crate::support::{
    Pglock, Running, Server, assert_free, children_of, holders, process_state, terminate_holder,
    tickets, until,
};

#[test]
fn a_lock_is_kept_for_as_long_as_was_asked_for() {
    let begun = Instant::now();
    let words = ["--hold-at-least", "2s", "kept", "echo", "ran"];
    let mut first = pglock().arg("try").args(words).spawn();
    first.wait_line("ran");
    for _ in 0..3 {
        let other = pglock().arg("try").args(words).run();
        other.assert_code(75).assert_stdout("").assert_one_message();
    }
    first.wait().assert_code(0).assert_stderr("");
    assert!(begun.elapsed() >= Duration::from_secs(2));
    assert_free(Server::shared(), "kept");
    // Without it each runs, one after the other.
    for _ in 0..4 {
        let other = pglock().args(["try", "kept", "echo", "ran"]).run();
        other.assert_code(0).assert_stdout("ran\n");
    }
}

/// Four hosts whose clocks differ by a second each, and a job that takes a tenth of one.
#[test]
fn a_job_that_is_shorter_than_the_clocks_differ_runs_once() {
    let on_four_hosts = |options: &[&str]| {
        let begun = Instant::now();
        let hosts: Vec<Running> = (0..4)
            .map(|host| {
                until("its clock", || begun.elapsed() >= Duration::from_secs(host));
                let words = ["skewed", "sh", "-c", "read -r line; echo ran"];
                let mut job = pglock().arg("try").args(options).args(words).spawn();
                // The job has nothing to wait for; it ends long before the next clock.
                job.write(b"go\n");
                job
            })
            .collect();
        hosts
            .into_iter()
            .map(|host| {
                let finished = host.wait();
                let ran = finished.stdout == "ran\n";
                finished.assert_code(if ran { 0 } else { 75 });
                ran
            })
            .collect::<Vec<bool>>()
    };
    assert_eq!(
        on_four_hosts(&["--hold-at-least", "5s"]),
        [true, false, false, false]
    );
    assert_eq!(on_four_hosts(&[]), [true; 4]);
}

#[test]
fn a_signal_ends_the_keeping_and_the_status_is_the_commands() {
    let words = [
        "--hold-at-least",
        "60s",
        "let-go",
        "sh",
        "-c",
        "echo ran; exit 3",
    ];
    let mut first = pglock().arg("run").args(words).spawn();
    first.wait_line("ran");
    let command_is_gone = || children_of(first.pid()).is_empty();
    until("the end of command and guardian", command_is_gone);
    first.signal(Signal::SIGTERM);
    first.wait().assert_code(3).assert_stderr("");
    assert_free(Server::shared(), "let-go");
}

#[test]
fn a_signal_that_ends_the_command_ends_the_keeping_too() {
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        let mut first = Pglock::new(Server::shared())
            .through(&["setsid", "env", "--default-signal=INT"])
            .args(["run", "--hold-at-least", "60s", "told-to-end", "cat"])
            .spawn();
        first.write(b"ready\n");
        first.wait_line("ready");
        first.signal(signal);
        let finished = first.wait();
        finished.assert_code(128 + signal as i32).assert_stderr("");
        finished.assert(finished.took < Duration::from_secs(30), "no keeping");
        assert_free(Server::shared(), "told-to-end");
    }
}

/// As psql does, and what is told to print its threads.
#[test]
fn a_command_that_goes_on_after_an_interrupt_has_its_lock_kept() {
    // A signal may cut a reading short.
    const GOES_ON: &str = "trap 'echo interrupted' INT; echo ready; for n in 1 2 3 4; do read -r line && [ \"$line\" = another ] && break; done";
    let mut first = Pglock::new(Server::shared())
        .through(&["setsid", "env", "--default-signal=INT"])
        .args(["run", "--hold-at-least", "60s", "went-on", "-c", GOES_ON])
        .spawn();
    first.wait_line("ready");
    first.signal(Signal::SIGINT);
    first.write(b"a line\n");
    first.wait_line("interrupted");
    first.write(b"another\n");
    until("the end of command and guardian", || {
        children_of(first.pid()).is_empty()
    });
    pglock()
        .args(["try", "-q", "went-on", "true"])
        .run()
        .assert_code(75);
    first.signal(Signal::SIGTERM);
    first.wait().assert_code(0).assert_stderr("");
}

#[test]
fn a_lock_lost_while_it_is_kept_is_told() {
    let words = ["--hold-at-least", "60s", "kept-lost", "echo", "ran"];
    let mut first = pglock().arg("run").args(words).spawn();
    first.wait_line("ran");
    let command_is_gone = || children_of(first.pid()).is_empty();
    until("the end of command and guardian", command_is_gone);
    terminate_holder(Server::shared(), "kept-lost");
    first
        .wait()
        .assert_code(123)
        .assert_one_message()
        .assert_stderr_has("kept-lost was lost: ")
        .assert_stderr_has("; the command exited with 0");
}

#[test]
fn no_time_at_all_is_no_limit() {
    let running = pglock().args(["--max-runtime", "0"]).hold("no-limit");
    running.let_go().assert_code(0);
}

#[test]
fn a_command_that_overruns_is_stopped_under_its_lock() {
    let server = Server::shared();
    let script = "trap '' TERM; echo ready; while :; do read -r line; done";
    for (name, command, at_least) in [
        ("overruns", &["sh", "-c", script][..], 700),
        ("overruns-obediently", &["cat"], 400),
    ] {
        let options = ["--max-runtime", "400ms", "--grace", "300ms", name];
        let begun = Instant::now();
        let mut running: Running = pglock().arg("run").args(options).args(command).spawn();
        if command.len() > 1 {
            running.wait_line("ready");
            assert_eq!(holders(&mut server.client(), name).len(), 1);
        }
        running
            .wait()
            .assert_code(124)
            .assert_one_message()
            .assert_stderr(&format!(
                "pglock: {name}: the command ran longer than --max-runtime and was stopped\n"
            ));
        let took = begun.elapsed();
        assert!(took >= Duration::from_millis(at_least), "{took:?}");
        assert!(took < Duration::from_secs(5), "{took:?}");
        assert_free(server, name);
    }
    let words = [
        "run",
        "--max-runtime",
        "60s",
        "in-time",
        "sh",
        "-c",
        "exit 4",
    ];
    pglock().args(words).run().assert_code(4).assert_stderr("");
}

#[test]
fn a_job_that_overran_keeps_its_lock_as_long_as_was_asked_for() {
    let begun = Instant::now();
    let options = ["--max-runtime", "200ms", "--hold-at-least", "1500ms"];
    let overran = pglock()
        .arg("run")
        .args(options)
        .args(["both", "cat"])
        .spawn();
    overran.wait().assert_code(124).assert_one_message();
    assert!(begun.elapsed() >= Duration::from_millis(1500));
}

#[test]
fn a_lock_lost_while_it_is_kept_stops_what_the_command_has_left() {
    let words = [
        "--hold-at-least",
        "60s",
        "left-behind",
        "sh",
        "-c",
        "cat >/dev/null <&3 & echo $!",
    ];
    let script = r#"exec 3<&0; exec "$@""#;
    let mut running = Pglock::new(Server::shared())
        .through(&["setsid", "sh", "-c", script, "sh"])
        .arg("run")
        .args(words)
        .spawn();
    running.wait_output("a process ID", |running| {
        running.stdout_so_far().ends_with('\n')
    });
    let left = nix::unistd::Pid::from_raw(running.stdout_so_far().trim().parse().unwrap());
    until("the end of the command", || {
        children_of(running.pid())
            .iter()
            .all(|child| *child == left)
    });
    terminate_holder(Server::shared(), "left-behind");
    running.wait().assert_code(123).assert_one_message();
    assert_eq!(process_state(left), None);
}

#[test]
fn a_full_queue_turns_others_away() {
    let server = Server::start();
    let pglock = || Pglock::new(&server).through(&["setsid"]);
    let mut client = server.client();
    let holder = pglock().hold("full");
    let queued = || {
        let words = ["run", "--max-waiters", "2", "full", "echo", "ran"];
        pglock().args(words).spawn()
    };
    let mut waiting = Vec::new();
    for at in 1..=2 {
        waiting.push(queued());
        until("its ticket", || tickets(&mut client) == at);
    }
    let turned_away = queued().wait();
    turned_away
        .assert_code(75)
        .assert_stdout("")
        .assert_one_message()
        .assert_stderr_has("full is held by postgres")
        .assert_stderr_has(
            "; the queue is full: 2 wait already; to free it: pglock release full\n",
        );
    holder.let_go().assert_code(0);
    for waiter in waiting {
        waiter.wait().assert_code(0).assert_stdout("ran\n");
    }
    pglock()
        .args([
            "run",
            "--scope",
            "transaction",
            "--max-waiters",
            "2",
            "full",
            "true",
        ])
        .run()
        .assert_code(125)
        .assert_one_message();
}

#[test]
fn jitter_comes_before_connecting_and_a_signal_ends_it() {
    let words = ["run", "-v", "--jitter", "1h", "late", "echo", "ran"];
    let mut late = Pglock::without_server().args(words).spawn();
    late.wait_stderr(" before connecting\n");
    late.signal(Signal::SIGTERM);
    late.wait().assert_code(143).assert_stdout("");

    let words = ["run", "--jitter", "10ms", "-w", "5s", "soon", "echo", "ran"];
    pglock()
        .args(words)
        .run()
        .assert_code(0)
        .assert_stdout("ran\n");
}

fn pglock() -> Pglock {
    Pglock::new(Server::shared()).through(&["setsid"])
}
