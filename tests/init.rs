//! pglock as process 1 of a PID namespace, as in a container.

use std::process::Command;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::support::{
    Pglock, Running, Server, assert_free, child_named, counting, holders, process_state,
    terminate_holder, until,
};

/// Far below the length of the commands here.
const SOON: Duration = Duration::from_secs(10);

#[test]
fn a_signal_ends_the_job_of_process_1() {
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        let Some(mut init) = Init::start("init-ends", "ulimit -c 0; echo ready; exec cat") else {
            return;
        };
        init.signal(signal);
        init.unshare
            .wait()
            .assert_code(128 + signal as i32)
            .assert_stdout("ready\n")
            .assert_stderr("");
        assert_free(Server::shared(), "init-ends");
    }
}

#[test]
fn a_signal_to_process_1_reaches_its_command_once() {
    let signals = [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP];
    let Some(mut init) = Init::start("init-once", &counting(&signals)) else {
        return;
    };
    for (count, signal) in (1..).zip(signals) {
        init.signal(signal);
        init.unshare.wait_line(&format!("got {count}"));
    }
    init.unshare
        .let_go()
        .assert_code(7)
        .assert_stdout("ready\ngot 1\ngot 2\ngot 3\n")
        .assert_stderr("");
}

#[test]
fn orphans_are_reaped_and_the_commands_status_is_kept() {
    let script =
        "for n in 1 2 3; do sh -c 'sleep 300 & exit 4'; done; echo ready; read line; exit 7";
    let Some(init) = Init::start("init-orphans", script) else {
        return;
    };
    for _ in 1..=3 {
        let orphan = until("an orphan", || child_named(init.pglock, "sleep"));
        kill(orphan, Signal::SIGTERM).unwrap();
        until("its end, reaped", || process_state(orphan).is_none());
    }
    init.unshare
        .let_go()
        .assert_code(7)
        .assert_stdout("ready\n")
        .assert_stderr("");
    assert_free(Server::shared(), "init-orphans");
}

#[test]
fn the_end_does_not_wait_for_orphans() {
    let script = "sleep 300 & setsid sleep 300 & echo ready; read line; exit 5";
    let Some(init) = Init::start("init-daemon", script) else {
        return;
    };
    let ended = Instant::now();
    let finished = init.unshare.let_go();
    finished
        .assert_code(5)
        .assert_stdout("ready\n")
        .assert_stderr("");
    finished.assert(ended.elapsed() < SOON, "a prompt end");
    assert_free(Server::shared(), "init-daemon");
}

#[test]
fn process_1_stops_its_command_when_the_lock_is_lost() {
    let script = "setsid sleep 300 & echo ready; exec sleep 300";
    let Some(init) = Init::start("init-lost", script) else {
        return;
    };
    terminate_holder(Server::shared(), "init-lost");
    init.unshare
        .wait()
        .assert_code(123)
        .assert_stdout("ready\n")
        .assert_one_message()
        .assert_stderr_has("init-lost was lost: ");
}

#[test]
fn a_killed_process_1_takes_its_command_and_the_lock_with_it() {
    let Some(mut init) = Init::start("init-killed", "echo ready; exec sleep 300") else {
        return;
    };
    init.signal(Signal::SIGKILL);
    // How unshare(1) tells of it depends on its version.
    init.unshare.wait().assert_stdout("ready\n");
    let mut client = Server::shared().client();
    until("a free lock", || {
        holders(&mut client, "init-killed").is_empty()
    });
}

/// pglock as process 1 of its namespace, and the process around that.
struct Init {
    unshare: Running,
    pglock: Pid,
}

impl Init {
    /// Runs a shell script under the lock, once it has said that it is ready; `None` where no namespace can be made.
    #[track_caller]
    fn start(lock: &str, script: &str) -> Option<Self> {
        let mut launcher = vec!["setsid", "env", "--default-signal=HUP,INT,QUIT"];
        launcher.extend(into_namespace()?);
        let mut unshare = Pglock::new(Server::shared())
            .through(&launcher)
            .args(["run", lock, "sh", "-c", script])
            .spawn();
        unshare.wait_line("ready");
        let pglock = until("pglock", || child_named(unshare.pid(), "pglock"));
        Some(Self { unshare, pglock })
    }

    /// Signals pglock from outside.
    #[track_caller]
    fn signal(&mut self, signal: Signal) {
        kill(self.pglock, signal).unwrap();
    }
}

/// How to become process 1: only root may without more ado, others where the system lets them.
#[expect(clippy::print_stderr, reason = "what was not tested should be seen")]
fn into_namespace() -> Option<Vec<&'static str>> {
    let as_root = vec!["unshare", "--pid", "--fork", "--mount-proc"];
    let mut as_user = as_root.clone();
    as_user.push("--map-root-user");
    for launcher in [as_root, as_user] {
        let mut command = Command::new(launcher[0]);
        let tried = command.args(&launcher[1..]).arg("true").output();
        if tried.is_ok_and(|tried| tried.status.success()) {
            return Some(launcher);
        }
    }
    eprintln!("no PID namespace can be made here: process 1 is not tested");
    None
}
