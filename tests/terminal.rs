//! The terminal itself is the command's as if there were no pglock around it, to the end of the connection.

use std::fs::{self, File};
use std::process::Stdio;

use nix::sys::signal::Signal;
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;

use crate::support::{
    Pglock, Running, Server, Watchdog, counting, holders, on_terminal, open_terminal, until,
};

#[test]
fn the_command_reads_the_terminal_key_by_key() {
    let key = "stty -icanon -echo; echo ready; key=$(dd bs=1 count=1 2>/dev/null); stty icanon; echo \"<$key>\"";
    let mut terminal = Pglock::new(Server::shared())
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
