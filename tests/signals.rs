//! Signals sent to pglock: they reach the command once each, they end a wait, and the lock is held to the end.

use std::net::TcpListener;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::support::{
    Finished, Pglock, Running, Server, counting, holders, name_of, process_state, until, waiters,
};

/// The signals that end a process which does not care for them.
const ENDING: [Signal; 6] = [
    Signal::SIGTERM,
    Signal::SIGINT,
    Signal::SIGHUP,
    Signal::SIGQUIT,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
];

/// Those that by default do nothing to a process which runs.
const HARMLESS: [Signal; 2] = [Signal::SIGCONT, Signal::SIGWINCH];

/// Within this a signal ends a wait.
const PROMPTLY: Duration = Duration::from_secs(1);

#[test]
fn each_signal_reaches_the_command_exactly_once() {
    for signal in ENDING.into_iter().chain(HARMLESS) {
        let mut running = start("signal-once", &counting(&[signal]));
        for count in 1..=3 {
            running.signal(signal);
            // One that came twice would be counted before the next, or before the end.
            running.wait_line(&format!("got {count}"));
        }
        running
            .let_go()
            .assert_code(7)
            .assert_stdout("ready\ngot 1\ngot 2\ngot 3\n")
            .assert_stderr("");
    }
}

#[test]
fn the_lock_is_held_until_the_command_has_ended_its_clean_up() {
    let mut client = Server::shared().client();
    for signal in ENDING {
        let name = name_of(signal);
        // The interpreter waits for input in the trap, as long as the test likes.
        let script = format!(
            "exec 3<&0; trap 'echo cleaning; cat <&3 >/dev/null; echo clean; exit 7' {name}
            (trap '' {name}; echo ready; exec cat <&3 >/dev/null) & while wait $!; [ $? -gt 128 ]; do :; done"
        );
        let mut running = start("signal-clean-up", &script);
        running.signal(signal);
        running.wait_line("cleaning");
        assert_eq!(holders(&mut client, "signal-clean-up").len(), 1, "{name}");
        assert!(running.is_running(), "{name}");
        running
            .let_go()
            .assert_code(7)
            .assert_stdout("ready\ncleaning\nclean\n")
            .assert_stderr("");
        assert_eq!(holders(&mut client, "signal-clean-up"), [0; 0], "{name}");
    }
}

#[test]
fn a_command_that_does_not_trap_the_signal_dies_of_it() {
    for signal in ENDING {
        // No core is to be left behind. `cat` itself tells that it runs, by repeating a line.
        let script = "ulimit -c 0; exec cat";
        let mut running = pglock().args(["run", "signal-death", "-c", script]).spawn();
        running.write(b"ready\n");
        running.wait_line("ready");
        running.signal(signal);
        running
            .wait()
            .assert_code(128 + signal as i32)
            .assert_stdout("ready\n")
            .assert_stderr("");
        assert_eq!(
            holders(&mut Server::shared().client(), "signal-death"),
            [0; 0]
        );
    }
}

#[test]
fn the_whole_process_group_gets_the_signal() {
    let script = "exec 3<&0; trap 'echo command' TERM
        (trap 'echo grandchild; exit 0' TERM; cat <&3 >/dev/null & echo ready; wait) &
        while wait $!; [ $? -gt 128 ]; do :; done; exit 7";
    let mut running = start("signal-group", script);
    running.signal(Signal::SIGTERM);
    let finished = running.wait();
    finished.assert_code(7).assert_stderr("");
    let mut lines: Vec<&str> = finished.stdout.lines().collect();
    lines.sort_unstable();
    finished.assert(
        lines == ["command", "grandchild", "ready"],
        "the signal in both",
    );
}

#[test]
fn a_signal_ends_a_wait_for_the_lock_and_nothing_is_run() {
    let mut client = Server::shared().client();
    let holder = pglock().hold("signal-wait");
    for signal in ENDING {
        let mut waiter = pglock().args(["run", "signal-wait", "echo", "ran"]).spawn();
        until("the waiter", || {
            waiters(&mut client, "signal-wait").len() == 1
        });
        let sent = Instant::now();
        waiter.signal(signal);
        assert_interrupted(&waiter.wait(), signal, sent);
        until("the end of its session", || {
            waiters(&mut client, "signal-wait").is_empty()
        });
    }
    holder.let_go().assert_code(0).assert_stderr("");
}

#[test]
fn a_signal_ends_the_wait_for_a_server_that_says_nothing() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    for signal in ENDING {
        for tls in ["disable", "require"] {
            let mut running = pglock()
                .env("PGHOST", "127.0.0.1")
                .env("PGPORT", port.to_string())
                .env("PGSSLMODE", tls)
                .args(["run", "signal-mute", "echo", "ran"])
                .spawn();
            let _connection = listener.accept().unwrap();
            let sent = Instant::now();
            running.signal(signal);
            assert_interrupted(&running.wait(), signal, sent);
        }
    }
}

#[test]
fn a_signal_that_does_nothing_by_default_does_not_end_a_wait() {
    let mut client = Server::shared().client();
    let holder = pglock().hold("signal-harmless");
    let mut waiter = pglock()
        .args(["run", "signal-harmless", "echo", "ran"])
        .spawn();
    until("the waiter", || {
        waiters(&mut client, "signal-harmless").len() == 1
    });
    for signal in HARMLESS {
        waiter.signal(signal);
    }
    holder.let_go().assert_code(0).assert_stderr("");
    waiter
        .wait()
        .assert_code(0)
        .assert_stdout("ran\n")
        .assert_stderr("");
}

#[test]
fn a_stopped_waiter_waits_on_when_continued() {
    let mut client = Server::shared().client();
    let holder = pglock().hold("signal-stop");
    let mut waiter = pglock().args(["run", "signal-stop", "echo", "ran"]).spawn();
    until("the waiter", || {
        waiters(&mut client, "signal-stop").len() == 1
    });
    waiter.signal(Signal::SIGSTOP);
    until("its stop", || process_state(waiter.pid()) == Some('T'));
    holder.let_go().assert_code(0).assert_stderr("");
    assert_eq!(holders(&mut client, "signal-stop"), [0; 0]);
    waiter.signal(Signal::SIGCONT);
    waiter
        .wait()
        .assert_code(0)
        .assert_stdout("ran\n")
        .assert_stderr("");
}

#[test]
fn a_signal_that_was_ignored_stays_ignored() {
    let nohup = || {
        let launcher = ["setsid", "env", "--ignore-signal=HUP"];
        Pglock::new(Server::shared()).through(&launcher)
    };
    let mut client = Server::shared().client();
    let mut holder = nohup().hold("signal-nohup");
    let mut waiter = nohup().args(["run", "signal-nohup", "echo", "ran"]).spawn();
    until("the waiter", || {
        waiters(&mut client, "signal-nohup").len() == 1
    });
    holder.signal(Signal::SIGHUP);
    waiter.signal(Signal::SIGHUP);
    assert!(holder.is_running() && waiter.is_running());
    holder
        .let_go()
        .assert_code(0)
        .assert_stdout("ready\n")
        .assert_stderr("");
    waiter
        .wait()
        .assert_code(0)
        .assert_stdout("ran\n")
        .assert_stderr("");
}

#[test]
fn a_daemon_that_the_command_leaves_behind_lives_on_without_the_lock() {
    let script = "setsid sleep 300 </dev/null >/dev/null 2>&1 & echo $!";
    let finished = pglock().args(["run", "signal-daemon", "-c", script]).run();
    let daemon = Daemon(Pid::from_raw(finished.stdout.trim_end().parse().unwrap()));
    finished.assert_code(0).assert_stderr("");
    assert_eq!(
        holders(&mut Server::shared().client(), "signal-daemon"),
        [0; 0]
    );
    pglock()
        .args(["try", "signal-daemon", "true"])
        .run()
        .assert_code(0)
        .assert_silent();
    let state = process_state(daemon.0);
    assert!(state.is_some_and(|state| state != 'Z'), "{state:?}");
}

/// A process outside the reach of everybody else, ended with this value.
struct Daemon(Pid);

impl Drop for Daemon {
    fn drop(&mut self) {
        // An error means that it has ended already.
        let _ = kill(self.0, Signal::SIGKILL);
    }
}

/// pglock without a terminal, and with the default effect of signals, however the tests themselves were started.
fn pglock() -> Pglock {
    let launcher = ["setsid", "env", "--default-signal=HUP,INT,QUIT"];
    Pglock::new(Server::shared()).through(&launcher)
}

/// Runs a shell script under the lock, once it has said that it is ready.
#[track_caller]
fn start(lock: &str, script: &str) -> Running {
    let mut running = pglock().args(["run", lock, "sh", "-c", script]).spawn();
    running.wait_line("ready");
    running
}

#[track_caller]
fn assert_interrupted(finished: &Finished, signal: Signal, sent: Instant) {
    let took = sent.elapsed();
    finished
        .assert_code(128 + signal as i32)
        .assert_silent()
        .assert(took < PROMPTLY, &format!("less than {took:?}"));
}
