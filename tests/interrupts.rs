//! An interrupt on a terminal ends what it would end without pglock, shells' loops among that.

use crate::support::{
    Pglock, Server, Watchdog, assert_free, on_terminal, process_state, until, waiters,
};

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
                        // What a shell makes of an interrupt before it waits is another matter.
                        let waits = process_state(terminal.pid()) == Some('S');
                        seen == round && waits || !terminal.is_running()
                    });
                    if terminal.is_running() {
                        terminal.write(b"\x03");
                    }
                    until("the next round, or the end", || {
                        let seen = terminal.output_so_far().matches("ready").count();
                        seen > round || !terminal.is_running()
                    });
                }
                let finished = terminal.wait();
                (finished.code, finished.signal, finished.stdout)
            };
            assert_eq!(run(Some("terminal-loop")), run(None), "{shell}: {script}");
        }
    }
}

fn pglock() -> Pglock {
    Pglock::new(Server::shared()).through(&["env", "--default-signal=HUP,INT,QUIT"])
}
