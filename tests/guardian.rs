//! The guardian: whatever kills pglock, the lock is held until its command has ended, and is free soon after.

use std::fs;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::support::{
    Pglock, PoolMode, Running, Server, Shutdown, Site, assert_free, child_named, children_of,
    holders, process_state, terminate_holder, until, within,
};

const GRACE: Duration = Duration::from_millis(300);
const MARGIN: Duration = Duration::from_secs(1);

/// Ignores TERM, and has a child that does.
const STUBBORN: &str = r#"exec 3<&0; trap "" TERM
    sh -c 'trap "" TERM; echo $$; exec cat <&3 >/dev/null' & echo $$; wait"#;

#[test]
fn the_lock_outlives_a_killed_pglock_and_not_its_command() {
    let server = &Server::start();
    server.restart_with_tls();
    let tcp = [
        ("PGHOST", server.host().to_owned()),
        ("PGSSLMODE", "disable".to_owned()),
    ];
    let tls = [
        ("PGHOST", server.host().to_owned()),
        ("PGSSLMODE", "require".to_owned()),
    ];
    let ways = [("socket", vec![]), ("tcp", tcp.into()), ("tls", tls.into())];
    for (way, environment) in ways {
        for scope in ["session", "transaction"] {
            let name = &format!("killed-{way}-{scope}");
            let pglock = || Pglock::new(server).envs(environment.clone());
            let mut client = server.client();
            let mut job = Job::start(pglock().args(["--scope", scope]), name);
            job.pglock.signal(Signal::SIGKILL);
            until("the end of pglock", || !job.pglock.is_running());

            let busy = pglock().args(["try", name, "echo", "ran"]).run();
            busy.assert_code(75).assert_stdout("");
            let waiter = pglock().args(["run", name, "echo", "ran"]).spawn();
            assert_eq!(holders(&mut client, name).len(), 1);
            assert_eq!(process_state(job.command), Some('S'));

            let guardian = job.guardian;
            job.end();
            within(MARGIN, "a free lock", || {
                holders(&mut client, name).is_empty()
            });
            waiter.wait().assert_code(0).assert_stdout("ran\n");
            until("the end of the guardian", || is_gone(guardian));
        }
    }
}

#[test]
fn whoever_lacks_descriptors_for_a_guardian_runs_no_command() {
    let server = Server::shared();
    let (mut refused, mut guarded) = (0, 0);
    for limit in 8..=24 {
        let name = format!("descriptors-{limit}");
        let limit = format!("--nofile={limit}");
        let pglock = Pglock::new(server).through(&["setsid", "prlimit", &limit]);
        let mut job = pglock
            .args(["run", &name, "-c", "echo ready; exec cat"])
            .spawn();
        until("a command, or the end", || {
            job.stdout_so_far() == "ready\n" || !job.is_running()
        });
        if job.is_running() {
            guarded += 1;
            job.signal(Signal::SIGKILL);
            until("the end of pglock", || !job.is_running());
            assert_eq!(holders(&mut server.client(), &name).len(), 1, "{limit}");
            job.close_stdin();
            job.wait().assert_signal(9);
        } else {
            refused += 1;
            let finished = job.wait();
            // There may be too few for a connection, too.
            let is_refused = matches!(finished.code, Some(121 | 125));
            finished.assert(is_refused, "a refusal");
            finished
                .assert_stdout("")
                .assert_stderr_has("too many open files");
        }
        within(MARGIN, "a free lock", || {
            holders(&mut server.client(), &name).is_empty()
        });
    }
    assert!(refused > 0 && guarded > 0, "{refused}, {guarded}");
}

#[test]
fn a_command_that_closes_all_descriptors_is_guarded() {
    let server = Server::shared();
    let script = "use POSIX; $| = 1; print \"$$\\n\"; POSIX::close($_) for 3 .. 255; <STDIN>";
    let words = ["run", "closes-all", "perl", "-e", script];
    let mut running = without_terminal(server).args(words).spawn();
    let pid = first_line(&mut running);
    running.signal(Signal::SIGKILL);
    until("the end of pglock", || !running.is_running());
    assert_eq!(holders(&mut server.client(), "closes-all").len(), 1);
    running.close_stdin();
    until("the end of the command", || is_gone(pid));
    until("a free lock", || {
        holders(&mut server.client(), "closes-all").is_empty()
    });
}

#[test]
fn without_a_guardian_a_killed_pglock_loses_the_lock_at_once() {
    let server = Server::shared();
    for option in ["-o", "--close"] {
        let words = [
            "run",
            option,
            "unguarded",
            "sh",
            "-c",
            "echo $$; read -r line",
        ];
        let mut running = without_terminal(server).args(words).spawn();
        let command = first_line(&mut running);
        assert_eq!(children_of(running.pid()), [command]);
        running.signal(Signal::SIGKILL);
        until("a free lock", || {
            holders(&mut server.client(), "unguarded").is_empty()
        });
        assert!(process_state(command).is_some());
        running.close_stdin();
        until("the end of the command", || is_gone(command));
    }
}

#[test]
fn a_session_lost_after_the_kill_stops_the_whole_group() {
    let server = Server::start();
    let words = ["--grace", "300ms", "lost-later", "sh", "-c", STUBBORN];
    let mut running = without_terminal(&server).arg("run").args(words).spawn();
    let pids = lines(&mut running, 2);
    running.signal(Signal::SIGKILL);
    until("the end of pglock", || !running.is_running());
    terminate_holder(&server, "lost-later");
    let lost = Instant::now();
    within(GRACE + MARGIN, "the end of the group", || {
        pids.iter().all(|pid| is_gone(*pid))
    });
    assert!(lost.elapsed() >= GRACE, "the grace");
}

#[test]
fn an_orphan_in_a_group_of_its_own_is_stopped_after_the_kill() {
    let server = Server::start();
    // The shell ends at TERM; its child is in a session of its own, ignores TERM, and loses its parent.
    let script = r#"exec 3<&0; setsid sh -c 'trap "" TERM; echo $$; exec cat <&3 >/dev/null' & echo $$; wait"#;
    let words = ["--grace", "300ms", "orphan", "sh", "-c", script];
    let mut running = without_terminal(&server).arg("run").args(words).spawn();
    let pids = lines(&mut running, 2);
    running.signal(Signal::SIGKILL);
    until("the end of pglock", || !running.is_running());
    terminate_holder(&server, "orphan");
    within(GRACE + MARGIN, "the end of all", || {
        pids.iter().all(|pid| is_gone(*pid))
    });
}

#[test]
fn a_server_that_stops_after_the_kill_stops_the_command() {
    let server = Server::start();
    let mut job = Job::start(without_terminal(&server), "server-gone");
    job.pglock.signal(Signal::SIGKILL);
    server.stop(Shutdown::Immediate);
    until("the end of the command", || is_gone(job.command));
    until("the end of the guardian", || is_gone(job.guardian));
}

#[test]
fn a_session_lost_after_the_kill_may_be_outlived() {
    let server = Server::start();
    let pglock = without_terminal(&server).args(["--on-lost", "warn"]);
    let mut job = Job::start(pglock, "outlives");
    job.pglock.signal(Signal::SIGKILL);
    until("the end of pglock", || !job.pglock.is_running());
    terminate_holder(&server, "outlives");
    // Whoever looks after the command looks more often than that.
    let seen = Instant::now();
    until("some time", || seen.elapsed() > Duration::from_millis(500));
    assert!(process_state(job.command).is_some());
    let guardian = job.guardian;
    job.end();
    until("the end of the guardian", || is_gone(guardian));
}

#[test]
fn a_stopped_pglock_whose_session_is_lost_finds_its_command_dead() {
    let server = Server::start();
    let words = ["--grace", "300ms", "asleep", "sh", "-c", STUBBORN];
    let mut running = without_terminal(&server).arg("run").args(words).spawn();
    let pids = lines(&mut running, 2);
    let wrapper = running.pid();
    running.signal(Signal::SIGSTOP);
    until("its stop", || process_state(wrapper) == Some('T'));
    terminate_holder(&server, "asleep");
    within(GRACE + MARGIN, "the end of the group", || {
        let is_dead = |pid: &Pid| matches!(process_state(*pid), None | Some('Z'));
        pids.iter().all(is_dead)
    });
    running.signal(Signal::SIGCONT);
    running
        .wait()
        .assert_code(123)
        .assert_one_message()
        .assert_stderr_has("asleep was lost: ");
}

#[test]
fn a_pglock_that_goes_on_in_the_grace_stops_what_is_left() {
    let server = Server::start();
    // The shell ends at TERM, its child does not.
    let script =
        r#"exec 3<&0; sh -c 'trap "" TERM; echo $$; exec cat <&3 >/dev/null' & echo $$; wait"#;
    let words = ["--grace", "2s", "awake", "sh", "-c", script];
    let mut running = without_terminal(&server).arg("run").args(words).spawn();
    let pids = lines(&mut running, 2);
    let wrapper = running.pid();
    running.signal(Signal::SIGSTOP);
    until("its stop", || process_state(wrapper) == Some('T'));
    terminate_holder(&server, "awake");
    let is_gone = |pid: &Pid| matches!(process_state(*pid), None | Some('Z'));
    until("the end of the shell", || pids.iter().any(is_gone));
    running.signal(Signal::SIGCONT);
    running
        .wait()
        .assert_code(123)
        .assert_one_message()
        .assert_stderr_has("awake was lost: ");
    assert!(pids.iter().all(is_gone), "an end with all dead");
}

#[test]
fn a_guardian_that_was_killed_during_the_wait_has_a_successor() {
    let server = Server::shared();
    let holder = without_terminal(server).hold("succeeds");
    let mut waiter = without_terminal(server)
        .args(["run", "succeeds", "cat"])
        .spawn();
    let guardian = || child_named(waiter.pid(), "lock-guardian");
    let killed = until("a guardian", guardian);
    kill(killed, Signal::SIGKILL).unwrap();
    holder.let_go().assert_code(0);
    waiter.write(b"ready\n");
    waiter.wait_line("ready");
    let next = until("another guardian", || {
        child_named(waiter.pid(), "lock-guardian")
    });
    assert_ne!(next, killed);
    waiter.let_go().assert_code(0).assert_stderr("");
}

#[test]
fn a_stopped_pglock_holds_its_lock_until_it_goes_on() {
    let server = Server::shared();
    let mut job = Job::start(without_terminal(server), "on-ice");
    let wrapper = job.pglock.pid();
    job.pglock.signal(Signal::SIGSTOP);
    until("its stop", || process_state(wrapper) == Some('T'));
    job.pglock.close_stdin();
    until("the end of the command", || {
        process_state(job.command) == Some('Z')
    });
    assert_eq!(holders(&mut server.client(), "on-ice").len(), 1);
    job.pglock.signal(Signal::SIGCONT);
    job.pglock.wait().assert_code(0).assert_stderr("");
    assert_free(server, "on-ice");
}

#[test]
fn a_killed_guardian_is_missed_by_nobody() {
    let server = Server::shared();
    let job = Job::start(without_terminal(server), "unguarded-now");
    kill(job.guardian, Signal::SIGKILL).unwrap();
    until("its end, reaped", || process_state(job.guardian).is_none());
    job.pglock.let_go().assert_code(0).assert_stderr("");
    assert_free(server, "unguarded-now");
}

#[test]
fn no_guardian_is_left_when_pglock_has_ended() {
    let server = Server::shared();
    let held = Job::start(without_terminal(server), "nobody-left");
    let mut waiter = without_terminal(server)
        .args(["run", "nobody-left", "echo", "ran"])
        .spawn();
    let guardian = until("a guardian", || children_of(waiter.pid()).first().copied());
    waiter.signal(Signal::SIGTERM);
    waiter.wait().assert_code(143);
    assert_eq!(process_state(guardian), None);

    let mut killed = without_terminal(server)
        .args(["run", "nobody-left", "echo", "ran"])
        .spawn();
    let orphan = until("a guardian", || children_of(killed.pid()).first().copied());
    killed.signal(Signal::SIGKILL);
    killed.wait().assert_stdout("");
    until("its end", || is_gone(orphan));

    held.pglock.let_go().assert_code(0);
    assert_eq!(process_state(held.guardian), None);
}

#[test]
fn a_guardian_has_nothing_of_pglocks_but_the_socket() {
    let server = Server::shared();
    let job = Job::start(without_terminal(server), "naked");
    let at = |what: &str| format!("/proc/{}/{what}", job.guardian);
    let open = || {
        let mut open: Vec<String> = fs::read_dir(at("fd"))
            .unwrap()
            .filter_map(|entry| fs::read_link(entry.unwrap().path()).ok())
            .map(|target| target.display().to_string())
            .map(|target| target.split(':').next().unwrap().to_owned())
            .collect();
        open.sort();
        open
    };
    let null = "/dev/null";
    let wanted = [null, null, null, "anon_inode", "socket", "socket"];
    until("that it has been handed the session", || open() == wanted);
    assert_eq!(fs::read_link(at("cwd")).unwrap().to_str(), Some("/"));
    let memory = fs::read_to_string(at("smaps_rollup")).unwrap();
    let own = memory.lines().filter(|line| line.starts_with("Private_"));
    let own: u64 = own
        .map(|line| line.split_whitespace().nth(1).unwrap())
        .map(|kilobytes| kilobytes.parse::<u64>().unwrap())
        .sum();
    assert!(own < 1024, "{own} kB of its own");
    job.pglock.let_go().assert_code(0);
}

#[test]
fn a_killed_pglock_behind_a_pooler_keeps_its_lock() {
    let server = Server::shared();
    for (mode, scope) in [
        (PoolMode::Session, "session"),
        (PoolMode::Transaction, "transaction"),
    ] {
        let site = Site::new(mode, 2, &[]);
        let mut client = server.client_as(&site.database, "postgres");
        let mut job = Job::start(site.pooled().args(["--scope", scope]), "pooled");
        job.pglock.signal(Signal::SIGKILL);
        until("the end of pglock", || !job.pglock.is_running());
        assert_eq!(holders(&mut client, "pooled").len(), 1);
        job.end();
        within(MARGIN, "a free lock", || {
            holders(&mut client, "pooled").is_empty()
        });
    }
}

/// A command that runs until its input ends, its pglock, and the guardian of both.
struct Job {
    pglock: Running,
    command: Pid,
    guardian: Pid,
}

impl Job {
    /// `pglock` lacks the verb before its options, the name and the command.
    #[track_caller]
    fn start(pglock: Pglock, name: &str) -> Self {
        let pglock = pglock.hold(name);
        let named = |comm| until(comm, || child_named(pglock.pid(), comm));
        Self {
            command: named("cat"),
            guardian: named("lock-guardian"),
            pglock,
        }
    }

    /// Ends the command of a pglock that was killed.
    #[track_caller]
    fn end(mut self) {
        self.pglock.close_stdin();
        self.pglock.wait().assert_signal(9);
        until("the end of the command", || is_gone(self.command));
    }
}

/// Nobody reaps the orphans of a test where process 1 does not.
fn is_gone(pid: Pid) -> bool {
    matches!(process_state(pid), None | Some('Z'))
}

#[track_caller]
fn first_line(running: &mut Running) -> Pid {
    lines(running, 1)[0]
}

/// The process IDs that the command tells, one a line.
#[track_caller]
fn lines(running: &mut Running, count: usize) -> Vec<Pid> {
    running.wait_output("process IDs", |running| {
        running.stdout_so_far().matches('\n').count() == count
    });
    let output = running.stdout_so_far();
    let pids = output.lines().map(|line| line.trim().parse().unwrap());
    pids.map(Pid::from_raw).collect()
}

fn without_terminal(server: &Server) -> Pglock {
    Pglock::new(server).through(&["setsid"])
}
