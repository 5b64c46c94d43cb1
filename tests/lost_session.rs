//! The session ends while the command runs: the command and all its helpers are stopped, and pglock says why.

use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::support::{
    Finished, Pglock, Proxy, Running, Server, Shutdown, backend_pid, holders, process_state,
    stop_in_a_try, until, waiters,
};

/// Short enough for a test, long enough to tell TERM from KILL.
const GRACE: Duration = Duration::from_millis(300);

/// What pglock may take besides the grace.
const MARGIN: Duration = Duration::from_secs(1);

/// Well below the grace that holds without `--grace`, which is 10 s.
const AT_ONCE: Duration = Duration::from_secs(5);

const TERMINATED: &str = "terminating connection due to administrator command";

/// A command and a grandchild that ignores TERM (and the hang-up of a terminal); both tell their process IDs.
const STUBBORN: &str = r#"exec 3<&0
    sh -c 'trap "" TERM HUP; echo $$; exec cat <&3 >/dev/null' & echo $$; wait"#;

/// The same, but TERM ends both.
const OBEDIENT: &str = r"exec 3<&0
    sh -c 'echo $$; exec cat <&3 >/dev/null' & echo $$; wait";

#[test]
fn a_terminated_backend_stops_the_whole_group() {
    Victim::start(pglock("lost-terminated"), STUBBORN)
        .lose(|| terminate("lost-terminated"))
        .after_grace()
        .assert_lost("lost-terminated", TERMINATED);
}

#[test]
fn a_fast_shutdown_stops_the_whole_group() {
    let server = Server::start();
    Victim::start(pglock_on(&server, "lost-fast"), STUBBORN)
        .lose(|| server.stop(Shutdown::Fast))
        .after_grace()
        .assert_lost("lost-fast", TERMINATED);
}

#[test]
fn an_immediate_shutdown_stops_the_whole_group() {
    let server = Server::start();
    Victim::start(pglock_on(&server, "lost-immediate"), STUBBORN)
        .lose(|| server.stop(Shutdown::Immediate))
        .after_grace()
        .assert_lost("lost-immediate", "");
}

#[test]
fn a_killed_backend_stops_the_whole_group() {
    let server = Server::start();
    let victim = Victim::start(pglock_on(&server, "lost-killed"), STUBBORN);
    let backend = holders(&mut server.client(), "lost-killed");
    victim
        .lose(|| kill(Pid::from_raw(backend[0]), Signal::SIGKILL).unwrap())
        .after_grace()
        .assert_lost("lost-killed", "");
}

#[test]
fn a_cut_connection_stops_the_whole_group() {
    let proxy = Proxy::to(Server::shared());
    Victim::start(pglock("lost-cut").envs(proxy.env()), STUBBORN)
        .lose(|| proxy.cut())
        .after_grace()
        .assert_lost("lost-cut", "");
}

#[test]
fn on_a_terminal_all_descendants_are_stopped() {
    let words = [
        "run",
        "--grace",
        "300ms",
        "lost-terminal",
        "sh",
        "-c",
        STUBBORN,
    ];
    let terminal = Pglock::new(Server::shared()).args(words).on_terminal();
    let pids = until("two process IDs", || pids(&terminal.output_so_far()));
    terminate("lost-terminal");
    let finished = terminal.wait();
    finished
        .assert_code(123)
        .assert_stdout_has("pglock: lost-terminal was lost: ")
        .assert_stdout_has(TERMINATED);
    assert_all_gone(&finished, &pids);
}

#[test]
fn helpers_that_end_at_term_are_not_waited_for_any_longer() {
    let words = ["run", "lost-at-once", "sh", "-c", OBEDIENT];
    Victim::await_pids(without_terminal().args(words).spawn())
        .lose(|| terminate("lost-at-once"))
        .within(AT_ONCE)
        .assert_lost("lost-at-once", TERMINATED);
}

#[test]
fn a_stopped_command_is_woken_to_end_at_term() {
    let words = ["run", "lost-stopped", "sh", "-c", OBEDIENT];
    Victim::await_pids(without_terminal().args(words).spawn())
        .stopped()
        .lose(|| terminate("lost-stopped"))
        .within(AT_ONCE)
        .assert_lost("lost-stopped", TERMINATED);
}

#[test]
fn a_stopped_command_that_ignores_term_is_killed() {
    Victim::start(pglock("lost-asleep"), STUBBORN)
        .stopped()
        .lose(|| terminate("lost-asleep"))
        .after_grace()
        .assert_lost("lost-asleep", TERMINATED);
}

#[test]
fn a_command_that_cleans_up_at_term_is_given_the_time() {
    // It is clean only after the test has ended its input.
    let script = "exec 3<&0; trap 'echo cleaning; cat <&3 >/dev/null; echo clean; exit 5' TERM
        (trap '' TERM; echo ready; exec cat <&3 >/dev/null) & while wait $!; [ $? -gt 128 ]; do :; done";
    let mut running = without_terminal()
        .args(["run", "lost-clean-up", "sh", "-c", script])
        .spawn();
    running.wait_line("ready");
    terminate("lost-clean-up");
    running.wait_line("cleaning");
    assert!(running.is_running());
    let finished = running.let_go();
    finished.assert_stdout("ready\ncleaning\nclean\n");
    assert_lost(&finished, "lost-clean-up", TERMINATED);
}

#[test]
fn the_status_of_the_stopped_command_does_not_hide_the_loss() {
    let script = "exec 3<&0; trap 'exit 0' TERM
        (trap '' TERM; echo ready; exec cat <&3 >/dev/null) & while wait $!; [ $? -gt 128 ]; do :; done";
    let mut running = pglock("lost-status").args(["sh", "-c", script]).spawn();
    running.wait_line("ready");
    terminate("lost-status");
    let finished = running.wait();
    finished.assert_stdout("ready\n");
    assert_lost(&finished, "lost-status", TERMINATED);
}

#[test]
fn a_lock_whose_release_is_not_confirmed_counts_as_lost() {
    let proxy = Proxy::to(Server::shared());
    let holder = without_terminal()
        .envs(proxy.env())
        .env("PGSSLMODE", "disable")
        .hold("lost-unlock");
    proxy.freeze();
    let mut holder = holder;
    holder.close_stdin();
    until("the unlock, behind start-up and lock", || {
        proxy.flights() == [3]
    });
    proxy.cut();
    let finished = holder.wait();
    finished
        .assert_code(123)
        .assert_stdout("ready\n")
        .assert_stderr_has("pglock: lost-unlock was lost: ")
        .assert_stderr_has("; the command exited with 0\n")
        .assert_one_message();
}

#[test]
fn a_server_that_stops_ends_a_wait_and_nothing_is_run() {
    let server = Server::start();
    let mut client = server.client();
    client.batch_execute("SELECT pg_advisory_lock(42)").unwrap();
    let waiter = Pglock::new(&server)
        .args(["run", "--raw", "42", "echo", "ran"])
        .spawn();
    until("the waiter", || waiters(&mut client, "#42").len() == 1);
    server.stop(Shutdown::Fast);
    assert_nothing_run(&waiter.wait());
}

#[test]
fn a_session_terminated_in_the_middle_of_a_try_ends_a_wait_and_nothing_is_run() {
    let server = Server::shared();
    let mut client = server.client();
    let holder = without_terminal().hold("lost-in-try");
    let proxy = Proxy::to(server);
    let waiter = without_terminal()
        .envs(proxy.env())
        .env("PGSSLMODE", "disable")
        .args(["run", "lost-in-try", "echo", "ran"])
        .spawn();
    let backend = until("the waiter", || {
        waiters(&mut client, "lost-in-try").first().copied()
    });
    stop_in_a_try(backend, &proxy);
    client
        .execute("SELECT pg_terminate_backend($1)", &[&backend])
        .unwrap();
    kill(Pid::from_raw(backend), Signal::SIGCONT).unwrap();
    assert_nothing_run(&waiter.wait());
    holder.let_go().assert_code(0).assert_stderr("");
}

#[test]
fn a_cut_connection_ends_a_wait_and_nothing_is_run() {
    let mut client = Server::shared().client();
    let holder = without_terminal().hold("lost-wait");
    let proxy = Proxy::to(Server::shared());
    let waiter = without_terminal()
        .envs(proxy.env())
        .args(["run", "lost-wait", "echo", "ran"])
        .spawn();
    until("the waiter", || {
        waiters(&mut client, "lost-wait").len() == 1
    });
    proxy.cut();
    assert_nothing_run(&waiter.wait());
    holder.let_go().assert_code(0).assert_stderr("");
}

/// A command under pglock, and the process IDs that it told.
struct Victim {
    running: Running,
    pids: Vec<Pid>,
}

impl Victim {
    /// Runs a script that tells two process IDs; `pglock` lacks only the command.
    #[track_caller]
    fn start(pglock: Pglock, script: &str) -> Self {
        Self::await_pids(pglock.args(["sh", "-c", script]).spawn())
    }

    #[track_caller]
    fn await_pids(mut running: Running) -> Self {
        running.wait_output("two process IDs", |running| {
            pids(&running.stdout_so_far()).is_some()
        });
        let pids = pids(&running.stdout_so_far()).unwrap();
        Self { running, pids }
    }

    /// Stops the processes, as Ctrl-Z would.
    #[track_caller]
    fn stopped(self) -> Self {
        for pid in &self.pids {
            kill(*pid, Signal::SIGSTOP).unwrap();
            until("its stop", || process_state(*pid) == Some('T'));
        }
        self
    }

    /// Makes pglock lose its session, and waits until it has ended; then nothing of the command may be left.
    #[track_caller]
    fn lose(self, loss: impl FnOnce()) -> Stopped {
        let before = Instant::now();
        loss();
        let after = Instant::now();
        let finished = self.running.wait();
        let (at_least, at_most) = (after.elapsed(), before.elapsed());
        assert_all_gone(&finished, &self.pids);
        Stopped {
            finished,
            at_least,
            at_most,
        }
    }
}

/// The end of a victim, and bounds of the time from the loss to it.
struct Stopped {
    finished: Finished,
    at_least: Duration,
    at_most: Duration,
}

impl Stopped {
    #[track_caller]
    fn after_grace(self) -> Self {
        let took = self.at_most;
        self.finished.assert(took >= GRACE, "the grace");
        self.within(GRACE + MARGIN)
    }

    #[track_caller]
    fn within(self, limit: Duration) -> Self {
        let took = self.at_least;
        let expected = format!("less than {limit:?} after the loss, not {took:?},");
        self.finished.assert(took < limit, &expected);
        self
    }

    #[track_caller]
    fn assert_lost(&self, lock: &str, cause: &str) {
        assert_lost(&self.finished, lock, cause);
    }
}

/// The first two lines, once both are there.
fn pids(output: &str) -> Option<Vec<Pid>> {
    let mut lines = output.split_inclusive('\n');
    [lines.next(), lines.next()]
        .map(|line| line?.strip_suffix('\n')?.trim_end().parse().ok())
        .into_iter()
        .map(|pid| pid.map(Pid::from_raw))
        .collect()
}

#[track_caller]
fn assert_all_gone(finished: &Finished, pids: &[Pid]) {
    for pid in pids {
        finished.assert(process_state(*pid).is_none(), &format!("the end of {pid}"));
    }
}

#[track_caller]
fn assert_lost(finished: &Finished, lock: &str, cause: &str) {
    let before = format!("pglock: {lock} was lost: ");
    let told = finished.stderr.strip_prefix(&before);
    let told = told.and_then(|rest| rest.strip_suffix("; the command was stopped\n"));
    finished
        .assert_code(123)
        .assert_one_message()
        .assert(!finished.stderr.contains("panic"), "no panic")
        .assert(
            told.is_some_and(|told| !told.is_empty() && told.contains(cause)),
            &format!("{before}{cause}; the command was stopped"),
        );
}

#[track_caller]
fn assert_nothing_run(finished: &Finished) {
    finished
        .assert_code(121)
        .assert_stdout("")
        .assert_stderr_has("pglock: the connection was lost: ")
        .assert_one_message();
}

/// Ends the session that holds the lock on the shared server.
#[track_caller]
fn terminate(lock: &str) {
    let mut client = Server::shared().client();
    let backend = holders(&mut client, lock);
    assert_eq!(backend.len(), 1);
    assert_ne!(backend[0], backend_pid(&mut client));
    client
        .execute("SELECT pg_terminate_backend($1)", &[&backend[0]])
        .unwrap();
}

/// pglock with the short grace, on the shared server, without a terminal.
fn pglock(lock: &str) -> Pglock {
    pglock_on(Server::shared(), lock)
}

fn pglock_on(server: &Server, lock: &str) -> Pglock {
    Pglock::new(server)
        .through(&["setsid"])
        .args(["run", "--grace", "300ms", lock])
}

fn without_terminal() -> Pglock {
    Pglock::new(Server::shared()).through(&["setsid"])
}
