//! Faults in what a signal, a terminal and the loss of the lock do to the command.

use std::io::{BufRead, BufReader, Read, pipe};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::support::{
    Pglock, Running, Server, assert_free, open_terminal, process_state, terminate_holder, until,
};

/// Far below the length of the commands here, which have to be stopped.
const SOON: Duration = Duration::from_secs(10);

#[test]
fn ctrl_c_did_not_reach_a_command_that_had_left_the_process_group() {
    let script = "echo ready; exec sleep 60";
    for (lock, launcher) in [
        ("left-session", &["setsid", "--wait"][..]),
        ("left-group", &["timeout", "60"]),
    ] {
        let mut terminal = Pglock::new(Server::shared())
            .through(&["env", "--default-signal=INT"])
            .args(["run", lock])
            .args(launcher)
            .args(["sh", "-c", script])
            .on_terminal();
        terminal.wait_for("ready");
        let typed = Instant::now();
        terminal.write(b"\x03");
        let finished = terminal.wait();
        let took = typed.elapsed();
        finished
            .assert_signal(2)
            .assert_stdout("ready\r\n^C")
            .assert(took < SOON, "a prompt end");
        assert_free(Server::shared(), lock);
    }
}

#[test]
fn a_command_outlived_the_terminal_that_hung_up() {
    let (master, terminal) = open_terminal().unwrap();
    let (output, stdout) = pipe().unwrap();
    let (mut errors, stderr) = pipe().unwrap();
    // It becomes the leader of a session on the terminal of its standard input, and nothing else has that open.
    let launcher = ["setsid", "--ctty", "env", "--default-signal=HUP"];
    let mut pglock = Pglock::new(Server::shared()).through(&launcher).args([
        "run",
        "hung-up",
        "sh",
        "-c",
        "echo ready; exec sleep 60",
    ]);
    let command = pglock.command().stdin(terminal);
    let running = Running::start_as_is(command.stdout(stdout).stderr(stderr));
    // The builder holds the writing ends of the pipes, and the terminal.
    drop(pglock);
    let mut output = BufReader::new(output);
    let ready = thread::spawn(move || {
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        (line, output)
    });
    until("the command", || ready.is_finished());
    let (mut said, mut output) = ready.join().unwrap();

    let hung_up = Instant::now();
    drop(master);
    let finished = running.wait();
    let took = hung_up.elapsed();
    finished
        .assert_code(129)
        .assert(took < SOON, "a prompt end");
    output.read_to_string(&mut said).unwrap();
    assert_eq!(said, "ready\n");
    said.clear();
    errors.read_to_string(&mut said).unwrap();
    assert_eq!(said, "");
    assert_free(Server::shared(), "hung-up");
}

#[test]
fn a_lost_session_waited_for_a_zombie_that_was_not_its_own() {
    // An older child of the process that becomes pglock has a child of its own enter the command's group, and never
    // reaps it. Processes are as old as the clock's tick in which they were started.
    let script = r#"
        use POSIX; $| = 1; pipe R, W;
        if (!fork) {
            alarm 300; close W; my $group = <R>;
            if (!fork) { alarm 300; setpgid 0, $group; print getppid, "\n" }
            pause while 1
        }
        dup2 fileno W, 9;
        my $tick = (POSIX::times)[0]; 1 while (POSIX::times)[0] < $tick + 2;
        exec @ARGV"#;
    let mut running = Pglock::new(Server::shared())
        .through(&["setsid", "perl", "-e", script])
        .args(["run", "--grace", "300ms", "zombie"])
        .args(["sh", "-c", "echo $$ >&9; exec cat"])
        .spawn();
    running.wait_output("a process ID", |running| {
        running.stdout_so_far().ends_with('\n')
    });
    let pid = running.stdout_so_far().trim_end().parse().unwrap();
    let negligent = Negligent(Pid::from_raw(pid));
    let lost = Instant::now();
    terminate_holder(Server::shared(), "zombie");
    let finished = running.wait();
    let took = lost.elapsed();
    finished
        .assert_code(123)
        .assert_stdout(&format!("{pid}\n"))
        .assert_stderr_has("pglock: zombie was lost: terminating connection")
        .assert_stderr_has("; the command was stopped\n")
        .assert_one_message()
        .assert(took < SOON, "a prompt end");
    let state = process_state(negligent.0);
    finished.assert(
        state.is_some_and(|state| state != 'Z'),
        "the parent of the zombie alive",
    );
    assert_free(Server::shared(), "zombie");
}

#[test]
fn a_signal_that_was_ignored_was_passed_on() {
    // A command may care for what its parent ignored; the second signal shows that the first one is through.
    let script = "trap 'echo HUP' HUP; trap 'echo USR1' USR1; exec 3<&0
        (trap '' HUP USR1; echo ready; exec cat <&3 >/dev/null) & while wait $!; [ $? -gt 128 ]; do :; done";
    let mut running = Pglock::new(Server::shared())
        .through(&["setsid", "env", "--ignore-signal=HUP"])
        .args(["run", "ignored", "env", "--default-signal=HUP"])
        .args(["sh", "-c", script])
        .spawn();
    running.wait_line("ready");
    running.signal(Signal::SIGHUP);
    running.signal(Signal::SIGUSR1);
    running.wait_line("USR1");
    running
        .let_go()
        .assert_code(0)
        .assert_stdout("ready\nUSR1\n")
        .assert_stderr("");
}

/// A process outside the reach of everybody else, ended with this value.
struct Negligent(Pid);

impl Drop for Negligent {
    fn drop(&mut self) {
        // An error means that it has ended already.
        let _ = kill(self.0, Signal::SIGKILL);
    }
}
