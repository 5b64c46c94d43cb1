//! Faults in which processes pglock stops, reaps and heeds.

use std::io::{Write as _, pipe};
use std::process::Stdio;
use std::time::Duration;

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::support::{
    Pglock, Running, Server, assert_free, process_state, terminate_holder, within,
};

/// Far below the length of the commands here, which have to be stopped.
const SOON: Duration = Duration::from_secs(10);

#[test]
fn a_command_killed_by_a_real_time_signal_was_an_unexpected_error() {
    without_terminal()
        .args(["run", "real-time", "sh", "-c", "kill -34 $$"])
        .run()
        .assert_code(162)
        .assert_silent();
}

#[test]
fn an_orphan_killed_by_a_real_time_signal_took_the_command_with_it() {
    // The orphan's end is seen to be over when the pipe that only it holds gives its end.
    let script = "mkfifo \"$0\"; (exec 3>\"$0\"; sh -c 'kill -34 $$' & wait) & cat \"$0\"; echo done; rm \"$0\"";
    let fifo = Server::shared().data_dir().join("real-time-orphan");
    without_terminal()
        .args(["run", "real-time-orphan", "sh", "-c", script])
        .arg(&fifo)
        .run()
        .assert_code(0)
        .assert_stdout("done\n")
        .assert_stderr("");
}

#[test]
fn a_signal_that_ends_by_default_ended_pglock_and_left_the_command() {
    for (signal, code) in [
        (Signal::SIGALRM, 142),
        (Signal::SIGPROF, 155),
        (Signal::SIGXCPU, 152),
        (Signal::SIGIO, 157),
        (Signal::SIGPWR, 158),
    ] {
        let mut running = without_terminal().hold("ending");
        running.signal(signal);
        running.wait().assert_code(code).assert_stderr("");
        assert_free(Server::shared(), "ending");
    }
}

#[test]
fn a_process_in_a_group_or_session_of_its_own_survived_the_loss_of_the_lock() {
    for launcher in ["setsid", "timeout 600"] {
        let script = format!(
            "trap '' TERM; {launcher} sh -c 'trap \"\" TERM; echo $$; exec cat' & exec cat"
        );
        let mut running = without_terminal()
            .args(["run", "--grace", "300ms", "apart", "sh", "-c", &script])
            .spawn();
        running.wait_output("a process ID", |running| {
            running.stdout_so_far().ends_with('\n')
        });
        let apart = Pid::from_raw(running.stdout_so_far().trim().parse().unwrap());
        terminate_holder(Server::shared(), "apart");
        running
            .wait()
            .assert_code(123)
            .assert_stderr_has("; the command was stopped\n")
            .assert_one_message();
        assert_eq!(process_state(apart), None);
    }
}

#[test]
fn an_alarm_that_the_kernel_sent_to_pglock_alone_was_swallowed_on_a_terminal() {
    let terminal = Pglock::new(Server::shared())
        .through(&["perl", "-e", "alarm 1; exec @ARGV"])
        .args(["run", "alarm", "sleep", "600"])
        .on_terminal();
    terminal.wait().assert_code(142);
    assert_free(Server::shared(), "alarm");
}

#[test]
fn a_command_whose_lock_was_lost_was_told_twice_to_end() {
    // A second TERM within the loop is counted; the command ends when its input does.
    let script = "n=0; trap 'n=$((n+1)); echo TERM $n' TERM; echo ready; while read -r line || [ $n -eq 0 ]; do :; done";
    for round in 0..10 {
        let mut running = without_terminal()
            .args(["run", "--grace", "15s", "twice", "sh", "-c", script])
            .spawn();
        running.wait_line("ready");
        terminate_holder(Server::shared(), "twice");
        running.wait_line("TERM 1");
        let finished = running.let_go();
        finished.assert_code(123).assert_stdout("ready\nTERM 1\n");
        assert!(finished.stderr.contains("was lost"), "round {round}");
    }
}

#[test]
fn a_command_that_had_left_its_group_was_not_told_of_a_signal() {
    // The group is left to a child, which pglock's signals must not miss either.
    let script = "use POSIX; $| = 1; my $child = fork // die; if (!$child) { setpgid(0, 0); pause while 1 } \
                  setpgid($child, $child); setpgid(0, $child) or die; print \"ready\\n\"; pause while 1";
    let mut running = without_terminal()
        .args(["run", "left", "perl", "-e", script])
        .spawn();
    running.wait_line("ready");
    running.signal(Signal::SIGTERM);
    running.wait().assert_code(143).assert_stderr("");
}

#[test]
fn a_standard_error_that_nobody_reads_kept_a_lost_lock_from_stopping_the_command() {
    let (unread, mut stderr) = pipe().unwrap();
    let flags = fcntl(&stderr, FcntlArg::F_GETFL).unwrap();
    let nonblocking = OFlag::from_bits_retain(flags) | OFlag::O_NONBLOCK;
    fcntl(&stderr, FcntlArg::F_SETFL(nonblocking)).unwrap();
    while stderr.write(&[b'.'; 4096]).is_ok() {}
    fcntl(&stderr, FcntlArg::F_SETFL(OFlag::from_bits_retain(flags))).unwrap();

    let (mut ready, stdout) = pipe().unwrap();
    let mut pglock = without_terminal()
        .args(["run", "-v", "blocked", "sh", "-c"])
        .arg("echo $$; exec sleep 600");
    let command = pglock.command().stdin(Stdio::null());
    let mut running = Running::start_as_is(command.stdout(stdout).stderr(stderr));
    drop(pglock);
    let mut pid = [0; 16];
    let length = std::io::Read::read(&mut ready, &mut pid).unwrap();
    let pid = std::str::from_utf8(&pid[..length])
        .unwrap()
        .trim()
        .parse()
        .unwrap();
    terminate_holder(Server::shared(), "blocked");
    within(SOON, "the end of the command", || {
        process_state(Pid::from_raw(pid)).is_none()
    });
    // The last line is worth waiting for; with its reader gone there is nobody to wait for.
    assert!(running.is_running());
    drop(unread);
    running.wait().assert_code(123);
}

#[test]
fn a_separator_after_a_name_that_looks_like_an_option_was_taken_for_the_command() {
    without_terminal()
        .args(["run", "--", "-odd-", "--", "echo", "--", "ran"])
        .run()
        .assert_code(0)
        .assert_stdout("-- ran\n")
        .assert_stderr("");
}

fn without_terminal() -> Pglock {
    Pglock::new(Server::shared()).through(&["setsid"])
}

#[test]
fn an_orphan_of_an_older_child_was_stopped_as_if_it_were_the_commands() {
    // The shell leaves a child behind when it becomes pglock; that child leaves an orphan once the command runs.
    let script = "exec 3<&0; (read -r go <&3; sleep 600 >/dev/null 2>&1 3<&- & echo orphan $!) & exec \"$0\" \"$@\" 3<&-";
    let mut running = Pglock::new(Server::shared())
        .through(&["setsid", "sh", "-c", script])
        .args(["run", "--grace", "300ms", "older", "sh", "-c"])
        .arg("echo ready; exec sleep 600")
        .spawn();
    running.wait_line("ready");
    running.write(b"go\n");
    let orphan = |said: &str| {
        said.lines()
            .find_map(|line| line.strip_prefix("orphan ")?.parse().ok())
    };
    running.wait_output("the orphan", |running| {
        orphan(&running.stdout_so_far()).is_some()
    });
    let orphan = Pid::from_raw(orphan(&running.stdout_so_far()).unwrap());
    terminate_holder(Server::shared(), "older");
    let finished = running.wait();
    let state = process_state(orphan);
    let _ = kill(orphan, Signal::SIGKILL);
    finished
        .assert_code(123)
        .assert_one_message()
        .assert(state.is_some_and(|state| state != 'Z'), "the orphan alive");
}
