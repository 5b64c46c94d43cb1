//! Signals on a terminal: whoever sends them, and whether to pglock alone or to its group, the command gets each once.

use std::fs;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::support::{
    Finished, Pglock, Pty, Server, assert_free, await_look, child_named, counting, holders,
    on_terminal, process_state, terminate_holder, until,
};

/// The signals that end a process which does not care for them, and two that by default do nothing.
const SIGNALS: [Signal; 8] = [
    Signal::SIGTERM,
    Signal::SIGINT,
    Signal::SIGHUP,
    Signal::SIGQUIT,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
    Signal::SIGCONT,
    Signal::SIGWINCH,
];

#[test]
fn a_signal_to_the_group_or_to_pglock_reaches_the_command_once() {
    for signal in SIGNALS {
        let mut terminal = start("terminal-once", &counting(&[signal]));
        let pglock = terminal.pid();
        let group = Pid::from_raw(-pglock.as_raw());
        for (count, addressee) in [group, pglock, pglock, group, group, pglock]
            .iter()
            .enumerate()
        {
            kill(*addressee, signal).unwrap();
            // One that came twice would be counted before the next, or before the end.
            terminal.wait_for(&format!("got {}\r\n", count + 1));
            await_look(pglock, &[signal]);
        }
        end_input(terminal).assert_code(7).assert_stdout(&told(6));
    }
}

#[test]
fn two_signals_to_the_group_at_once_reach_the_command_once_each() {
    let signals = [Signal::SIGTERM, Signal::SIGCONT];
    let mut terminal = start("terminal-two", &counting(&signals));
    let group = Pid::from_raw(-terminal.pid().as_raw());
    // As a shell's `kill %1` does to a job that is stopped.
    for round in 1..=3 {
        kill(group, Signal::SIGTERM).unwrap();
        kill(group, Signal::SIGCONT).unwrap();
        terminal.wait_for(&format!("got {}\r\n", 2 * round));
        await_look(terminal.pid(), &signals);
    }
    let finished = end_input(terminal);
    finished
        .assert_code(7)
        .assert(!finished.stdout.contains("got 7"), "six signals");
}

#[test]
fn what_is_typed_reaches_the_command_once() {
    for (typed, signal) in [(b"\x03", Signal::SIGINT), (b"\x1c", Signal::SIGQUIT)] {
        let mut terminal = start("terminal-typed", &counting(&[signal]));
        let pglock = terminal.pid();
        for count in [1, 3] {
            terminal.write(typed);
            terminal.wait_for(&format!("got {count}\r\n"));
            await_look(pglock, &[signal]);
            // The terminal's signal is not taken for this one.
            kill(pglock, signal).unwrap();
            terminal.wait_for(&format!("got {}\r\n", count + 1));
        }
        end_input(terminal).assert_code(7).assert_stdout(&told(4));
    }
}

#[test]
fn a_new_size_of_the_window_is_told_once() {
    let mut terminal = start("terminal-size", &counting(&[Signal::SIGWINCH]));
    for count in 1..=3 {
        terminal.resize(30 + count, 100);
        terminal.wait_for(&format!("got {count}\r\n"));
        await_look(terminal.pid(), &[Signal::SIGWINCH]);
    }
    end_input(terminal).assert_code(7).assert_stdout(&told(3));
}

#[test]
fn timeout_ends_the_command_as_without_pglock() {
    // In the background group that timeout(1) makes, and in the foreground.
    for option in ["--kill-after=60", "--foreground"] {
        let lock = "terminal-timeout";
        let run = |lock| {
            let script =
                format!("timeout {option} 1 $UNDER sh -c 'echo ready; exec sleep 60'; echo $?");
            on_terminal(&["sh", "-c", &script], lock).wait().stdout
        };
        let bare = run(None);
        assert_eq!(bare, "ready\r\n124\r\n");
        assert_eq!(run(Some(lock)), bare, "{option}");
        assert_free(Server::shared(), lock);
    }
}

#[test]
fn a_canary_has_nothing_of_pglocks_and_goes_with_it() {
    let server = Server::shared();
    let mut terminal = start("terminal-canary", "echo ready; exec cat");
    let canary = until("a canary", || child_named(terminal.pid(), "lock-canary"));
    let open = fs::read_dir(format!("/proc/{canary}/fd")).unwrap();
    let open = open.map(|entry| fs::read_link(entry.unwrap().path()).unwrap());
    let mut open: Vec<String> = open.map(|target| target.display().to_string()).collect();
    open.sort();
    assert!(
        open.len() == 4 && open[3].starts_with("socket:"),
        "{open:?}"
    );
    assert_eq!(open[..3], ["/dev/null"; 3]);
    terminal.signal(Signal::SIGKILL);
    until("its end", || {
        matches!(process_state(canary), None | Some('Z'))
    });
    until("a free lock", || {
        holders(&mut server.client(), "terminal-canary").is_empty()
    });

    let mut terminal = start("terminal-canary", "echo ready; exec cat");
    let canary = until("a canary", || child_named(terminal.pid(), "lock-canary"));
    terminal.write(b"\x04");
    terminal.wait().assert_code(0);
    assert_eq!(process_state(canary), None);
}

#[test]
fn a_canary_that_was_killed_or_stopped_holds_nothing_up() {
    for signal in [Signal::SIGKILL, Signal::SIGSTOP] {
        let mut terminal = start("terminal-no-canary", &counting(&[Signal::SIGTERM]));
        let canary = until("a canary", || child_named(terminal.pid(), "lock-canary"));
        kill(canary, signal).unwrap();
        until("its end", || {
            matches!(process_state(canary), None | Some('T'))
        });
        for count in 1..=2 {
            terminal.signal(Signal::SIGTERM);
            terminal.wait_for(&format!("got {count}\r\n"));
        }
        end_input(terminal).assert_code(7).assert_stdout(&told(2));
        assert_eq!(process_state(canary), None);
    }
}

#[test]
fn a_lost_lock_stops_the_command_and_spares_the_canary() {
    let words = [
        "run",
        "--grace",
        "300ms",
        "terminal-lost",
        "sh",
        "-c",
        "echo ready; exec cat",
    ];
    let mut terminal = pglock().args(words).on_terminal();
    terminal.wait_for("ready");
    terminate_holder(Server::shared(), "terminal-lost");
    terminal
        .wait()
        .assert_code(123)
        .assert_stdout_has("terminal-lost was lost: ");
}

/// Runs a shell script under the lock on a terminal without echo, once it has said that it is ready.
#[track_caller]
fn start(lock: &str, script: &str) -> Pty {
    let script = format!("stty -echo; {script}");
    let mut terminal = pglock()
        .args(["run", lock, "sh", "-c", &script])
        .on_terminal();
    terminal.wait_for("ready\r\n");
    terminal
}

#[track_caller]
fn end_input(mut terminal: Pty) -> Finished {
    terminal.write(b"\x04");
    terminal.wait()
}

/// What a counting command has shown that got so many signals.
fn told(count: usize) -> String {
    let lines = (1..=count).map(|count| format!("got {count}\r\n"));
    format!("ready\r\n{}", lines.collect::<Vec<_>>().concat())
}

fn pglock() -> Pglock {
    Pglock::new(Server::shared()).through(&["env", "--default-signal=HUP,INT,QUIT"])
}
