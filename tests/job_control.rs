//! Job control: a shell stops and continues, ends and interrupts pglock and its command as one job.

use std::fs::{self, File};

use nix::sys::signal::Signal;
use nix::sys::stat::Mode;
use nix::unistd::{Pid, mkfifo};

use crate::support::{
    Interactive, Pglock, Server, Watchdog, assert_free, await_look, child_named, counting, holders,
    process_state, terminate_holder, until, waiters,
};

#[test]
fn ctrl_z_stops_both_and_fg_continues_both_under_the_lock() {
    let lock = "job-stop";
    for words in Interactive::SHELLS {
        let mut shell = Interactive::start(words, lock);
        let job = Job::cat(&mut shell, "$UNDER cat");
        shell.stop();
        until("its stop", || job.is_stopped());
        assert_eq!(holders(&mut Server::shared().client(), lock).len(), 1);
        shell.enter("fg");
        shell.enter("two");
        shell.terminal.wait_for("two\r\n");
        assert!(!job.is_stopped());
        shell.terminal.write(b"\x04");
        shell.expect_status(0);
        assert_free(Server::shared(), lock);
        shell.leave();
    }
}

#[test]
fn what_the_shell_sends_to_the_job_reaches_the_command_once() {
    let counted = [Signal::SIGCONT, Signal::SIGTERM, Signal::SIGUSR1];
    for words in Interactive::SHELLS {
        let scratch = Watchdog::start();
        let at = |name: &str| scratch.directory().join(name);
        mkfifo(&at("input"), Mode::from_bits_truncate(0o666)).unwrap();
        fs::write(at("script"), counting(&counted)).unwrap();
        let mut shell = Interactive::start(words, "job-once");
        shell.enter(&format!("cd {}", scratch.directory().display()));
        shell.enter("$UNDER sh script <input");
        let input = File::options().write(true).open(at("input")).unwrap();
        shell.terminal.wait_for("ready\r\n");
        let pglock = child_named_soon(shell.terminal.pid(), "pglock");
        let expect = |shell: &mut Interactive, count| {
            shell.terminal.wait_for(&format!("got {count}\r\n"));
            await_look(pglock, &counted);
        };
        shell.stop();
        shell.enter("fg");
        expect(&mut shell, 1);
        shell.stop();
        shell.enter("bg");
        expect(&mut shell, 2);
        for (line, count) in [("kill %1", 3), ("kill -USR1 %1", 4), ("kill -CONT %1", 5)] {
            shell.enter(line);
            expect(&mut shell, count);
        }
        shell.enter("true");
        shell.expect_status(0);
        drop(input);
        shell.enter("wait %1");
        shell.expect_status(7);
        let said = shell.terminal.output_so_far();
        assert!(!said.contains("got 6"), "{said}");
        shell.leave();
    }
}

#[test]
fn a_lock_lost_while_stopped_is_noticed_on_resume() {
    for (words, option) in [
        (Interactive::SHELLS[0], ""),
        (Interactive::SHELLS[1], ""),
        (Interactive::SHELLS[0], "-o"),
    ] {
        let lock = "job-lost";
        let mut shell = Interactive::start(words, lock);
        let job = Job::cat(&mut shell, &format!("${{UNDER% --}} {option} -- cat"));
        shell.stop();
        terminate_holder(Server::shared(), lock);
        if option.is_empty() {
            // The guardian's work.
            until("the end of the command", || {
                process_state(job.command) == Some('Z')
            });
        }
        assert_eq!(process_state(job.pglock), Some('T'));
        shell.enter("fg");
        shell.terminal.wait_for("pglock: job-lost was lost: ");
        shell.expect_status(123);
        shell.leave();
    }
}

#[test]
fn a_command_that_reads_in_the_background_stops_until_fg() {
    for words in Interactive::SHELLS {
        let mut shell = Interactive::start(words, "job-background");
        shell.enter("$UNDER cat &");
        let pglock = child_named_soon(shell.terminal.pid(), "pglock");
        let command = child_named_soon(pglock, "cat");
        let job = Job { pglock, command };
        until("its stop", || job.is_stopped());
        shell.enter("fg");
        shell.enter("typed");
        shell.terminal.wait_for("typed\r\n");
        shell.terminal.write(b"\x04");
        shell.expect_status(0);
        shell.leave();
    }
}

#[test]
fn a_wait_that_was_stopped_goes_on() {
    let lock = "job-wait";
    for words in Interactive::SHELLS {
        let holder = Pglock::new(Server::shared())
            .through(&["setsid"])
            .hold(lock);
        let mut shell = Interactive::start(words, lock);
        shell.enter("$UNDER echo ran");
        let mut client = Server::shared().client();
        until("the waiter", || waiters(&mut client, lock).len() == 1);
        shell.stop();
        holder.let_go().assert_code(0);
        assert_free(Server::shared(), lock);
        shell.enter("fg");
        // The shell says what goes on; a line about the wait may come and go before the output.
        shell.terminal.wait_for("echo ran\r\n");
        shell.terminal.wait_for("ran\r\n");
        shell.expect_status(0);
        shell.leave();
    }
}

#[test]
fn ctrl_c_ends_the_loop_of_an_interactive_shell() {
    for words in Interactive::SHELLS {
        let mut shell = Interactive::start(words, "job-loop");
        Job::cat(
            &mut shell,
            "for n in 1 2 3; do $UNDER cat; echo after; done",
        );
        shell.terminal.write(b"\x03");
        shell.expect_status(130);
        let said = shell.terminal.output_so_far();
        assert!(!said.contains("after"), "{said}");
        shell.leave();
    }
}

/// A job that runs `cat` on the terminal.
struct Job {
    pglock: Pid,
    command: Pid,
}

impl Job {
    #[track_caller]
    fn cat(shell: &mut Interactive, line: &str) -> Self {
        shell.enter(line);
        let pglock = child_named_soon(shell.terminal.pid(), "pglock");
        let command = child_named_soon(pglock, "cat");
        // The shell may still be about to hand the terminal over: what is typed now is for the command all the same.
        shell.enter("one");
        shell.terminal.wait_for("one\r\n");
        Self { pglock, command }
    }

    fn is_stopped(&self) -> bool {
        [self.pglock, self.command]
            .iter()
            .all(|pid| process_state(*pid) == Some('T'))
    }
}

#[track_caller]
fn child_named_soon(parent: Pid, program: &str) -> Pid {
    until(program, || child_named(parent, program))
}
