//! On a terminal the command has signals and terminal as if there were no pglock around it.

use std::fs::{self, File};
use std::process::Stdio;

use nix::sys::signal::{Signal, kill};
use nix::sys::stat::Mode;
use nix::unistd::{Pid, mkfifo};

use crate::support::{
    Finished, Pglock, Pty, Running, Server, Watchdog, assert_free, child_named, counting, holders,
    on_terminal, open_terminal, process_state, terminate_holder, until, waiters,
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
        let canary = until("a canary", || child_named(pglock, "pglock-canary"));
        for (count, addressee) in [group, pglock, pglock, group, group, pglock]
            .iter()
            .enumerate()
        {
            kill(*addressee, signal).unwrap();
            // One that came twice would be counted before the next, or before the end.
            terminal.wait_for(&format!("got {}\r\n", count + 1));
            until("pglock's own look at it", || {
                [pglock, canary].iter().all(|pid| !is_pending(*pid, signal))
            });
        }
        end_input(terminal).assert_code(7).assert_stdout(&told(&[
            "got 1", "got 2", "got 3", "got 4", "got 5", "got 6",
        ]));
    }
}

#[test]
fn two_signals_to_the_group_at_once_reach_the_command_once_each() {
    let mut terminal = start(
        "terminal-two",
        &counting(&[Signal::SIGTERM, Signal::SIGCONT]),
    );
    let group = Pid::from_raw(-terminal.pid().as_raw());
    // As a shell's `kill %1` does to a job that is stopped.
    for round in 1..=3 {
        kill(group, Signal::SIGTERM).unwrap();
        kill(group, Signal::SIGCONT).unwrap();
        terminal.wait_for(&format!("got {}\r\n", 2 * round));
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
            // The terminal's signal is not taken for this one.
            kill(pglock, signal).unwrap();
            terminal.wait_for(&format!("got {}\r\n", count + 1));
        }
        end_input(terminal)
            .assert_code(7)
            .assert_stdout(&told(&["got 1", "got 2", "got 3", "got 4"]));
    }
}

#[test]
fn a_new_size_of_the_window_is_told_once() {
    let mut terminal = start("terminal-size", &counting(&[Signal::SIGWINCH]));
    for count in 1..=3 {
        terminal.resize(30 + count, 100);
        terminal.wait_for(&format!("got {count}\r\n"));
    }
    end_input(terminal)
        .assert_code(7)
        .assert_stdout(&told(&["got 1", "got 2", "got 3"]));
}

#[test]
fn pglock_dies_of_the_interrupt_that_the_command_died_of() {
    let scratch = Watchdog::start();
    for (typed, signal) in [(b"\x03", 2), (b"\x1c", 3)] {
        // Only pglock may leave a core behind, and does not.
        let command = ["sh", "-c", "ulimit -c 0; echo ready; exec cat"];
        let words = ["run", "terminal-death"];
        let mut terminal = pglock().args(words).args(command).on_terminal();
        terminal.wait_for("ready");
        terminal.write(typed);
        terminal.wait().assert_signal(signal);
        assert_free(Server::shared(), "terminal-death");

        let around = r#"trap : INT QUIT; ulimit -c unlimited; "$@"; echo "status $?""#;
        let mut terminal = pglock()
            .through(&["bash", "-c", around, "bash"])
            .current_dir(scratch.directory())
            .args(words)
            .args(command)
            .on_terminal();
        terminal.wait_for("ready");
        terminal.write(typed);
        let finished = terminal.wait();
        finished
            .assert_code(0)
            .assert_stdout_has(&format!("status {}\r\n", 128 + signal))
            .assert(!finished.stdout.contains("core dumped"), "no core");
    }
}

#[test]
fn an_interrupt_ends_a_wait_and_the_loop_around_it() {
    let holder = pglock().through(&["setsid"]).hold("terminal-wait");
    let around = r"for n in 1 2; do $UNDER true; echo after; done";
    let mut terminal = on_terminal(&["bash", "-c", around], Some("terminal-wait"));
    let mut client = Server::shared().client();
    until("the waiter", || {
        waiters(&mut client, "terminal-wait").len() == 1
    });
    terminal.write(b"\x03");
    let finished = terminal.wait();
    finished
        .assert_signal(2)
        .assert(!finished.stdout.contains("after"), "nothing after it");
    holder.let_go().assert_code(0);
}

#[test]
fn a_shells_loop_takes_an_interrupt_as_without_pglock() {
    let dies = "echo ready; exec cat";
    // This one has dealt with the interrupt itself; what the shell makes of that is its own affair.
    let survives = "trap 'exit 0' INT; exec 3<&0; (trap '' INT; echo ready; exec cat <&3) & wait";
    let around =
        r#"n=0; while [ $n -lt 2 ]; do n=$((n + 1)); $UNDER sh -c "$1"; echo "after $n"; done"#;
    for shell in ["bash", "dash"] {
        for script in [dies, survives] {
            let run = |lock| {
                let mut terminal = on_terminal(&[shell, "-c", around, shell, script], lock);
                for round in 1..=2 {
                    until("the round, or the end", || {
                        let seen = terminal.output_so_far().matches("ready").count();
                        seen == round || !terminal.is_running()
                    });
                    terminal.write(b"\x03");
                }
                let finished = terminal.wait();
                (finished.code, finished.signal, finished.stdout)
            };
            assert_eq!(run(Some("terminal-loop")), run(None), "{shell}: {script}");
        }
    }
}

#[test]
fn the_command_reads_the_terminal_key_by_key() {
    let key = "stty -icanon -echo; echo ready; key=$(dd bs=1 count=1 2>/dev/null); stty icanon; echo \"<$key>\"";
    let mut terminal = pglock()
        .args(["run", "terminal-key", "sh", "-c", key])
        .on_terminal();
    terminal.wait_for("ready");
    terminal.write(b"k");
    terminal
        .wait()
        .assert_code(0)
        .assert_stdout("ready\r\n<k>\r\n");
}

#[test]
fn a_pager_behind_the_command_reads_the_terminal() {
    let pager = r#"read line; stty -icanon -echo </dev/tty; echo "$line"; dd bs=1 count=1 </dev/tty 2>/dev/null"#;
    let around = format!(r#"$UNDER yes page | sh -c '{pager}'; echo "${{PIPESTATUS[*]}}""#);
    let run = |lock| {
        let mut terminal = on_terminal(&["bash", "-c", &around], lock);
        terminal.wait_for("page");
        terminal.write(b"q");
        terminal.wait().stdout
    };
    let bare = run(None);
    assert_eq!(bare, "page\r\nq141 0\r\n");
    assert_eq!(run(Some("terminal-pager")), bare);
}

#[test]
fn a_hang_up_reaches_the_command_once_and_the_lock_outlives_it() {
    let lock = "terminal-hang-up";
    let mut client = Server::shared().client();
    // The kernel tells the leader of the session alone; if that is a shell, it tells the others when the shell dies.
    for leader in [&["env"][..], &["sh", "-c", "\"$@\"; :", "sh"]] {
        let scratch = Watchdog::start();
        let at = |name: &str| scratch.directory().join(name);
        mkfifo(&at("input"), Mode::from_bits_truncate(0o666)).unwrap();
        let script = format!("exec <input >output 2>&1; {}", counting(&[Signal::SIGHUP]));
        let (master, terminal) = open_terminal().unwrap();
        let mut pglock = Pglock::new(Server::shared())
            .through(leader)
            .through(&["setsid", "--ctty", "env", "--default-signal=HUP"])
            .current_dir(scratch.directory())
            .args(["run", lock, "sh", "-c", &script]);
        let command = pglock.command().stdin(terminal);
        let mut running = Running::start_as_is(command.stdout(Stdio::null()).stderr(Stdio::null()));
        // The builder has the terminal open as well.
        drop(pglock);
        let input = File::options().write(true).open(at("input")).unwrap();
        let output = || fs::read_to_string(at("output")).unwrap_or_default();
        until("the command", || output() == "ready\n");

        drop(master);
        until("the hang-up", || output() == "ready\ngot 1\n");
        assert_eq!(holders(&mut client, lock).len(), 1);
        drop(input);
        until("a free lock", || holders(&mut client, lock).is_empty());
        until("the end", || !running.is_running());
        assert_eq!(output(), "ready\ngot 1\n");
    }
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
    let canary = until("a canary", || child_named(terminal.pid(), "pglock-canary"));
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
    let canary = until("a canary", || child_named(terminal.pid(), "pglock-canary"));
    terminal.write(b"\x04");
    terminal.wait().assert_code(0);
    assert_eq!(process_state(canary), None);
}

#[test]
fn a_canary_that_was_killed_or_stopped_holds_nothing_up() {
    for signal in [Signal::SIGKILL, Signal::SIGSTOP] {
        let mut terminal = start("terminal-no-canary", &counting(&[Signal::SIGTERM]));
        let canary = until("a canary", || child_named(terminal.pid(), "pglock-canary"));
        kill(canary, signal).unwrap();
        until("its end", || {
            matches!(process_state(canary), None | Some('T'))
        });
        for count in 1..=2 {
            terminal.signal(Signal::SIGTERM);
            terminal.wait_for(&format!("got {count}\r\n"));
        }
        end_input(terminal)
            .assert_code(7)
            .assert_stdout(&told(&["got 1", "got 2"]));
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

/// Whether a signal that the process blocks waits for it: another of its kind would be lost, as for any process.
fn is_pending(pid: Pid, signal: Signal) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let pending = status.lines().find_map(|line| line.strip_prefix("ShdPnd:"));
    let pending = u64::from_str_radix(pending.unwrap().trim(), 16).unwrap();
    pending >> (signal as i32 - 1) & 1 == 1
}

/// What a counting command has shown.
fn told(lines: &[&str]) -> String {
    let lines = ["ready"].iter().chain(lines);
    lines.map(|line| format!("{line}\r\n")).collect()
}

fn pglock() -> Pglock {
    Pglock::new(Server::shared()).through(&["env", "--default-signal=HUP,INT,QUIT"])
}
