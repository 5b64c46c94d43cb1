//! A shell on a terminal whose scripts run commands under a lock, or bare.

use std::process::Command;

use super::pglock::Pglock;
use super::pty::Pty;
use super::server::Server;

/// Starts the words on a terminal of their own; in a shell's script `$UNDER COMMAND` runs the command under this lock,
/// or bare without one.
#[track_caller]
pub fn on_terminal(words: &[&str], lock: Option<&str>) -> Pty {
    let server = Server::shared();
    let mut pglock = Pglock::new(server);
    let pglock = pglock.command();
    let program = pglock.get_program().to_str().expect("a plain path");
    let under = lock.map(|lock| format!("{program} run {lock} --"));
    let environment = pglock.get_envs();
    let mut command = Command::new("env");
    command
        .args(["--default-signal=HUP,INT,QUIT,TSTP,TTIN,TTOU"])
        .args(words)
        .env_clear()
        .envs(environment.filter_map(|(name, value)| Some((name, value?))))
        .env("PS1", PROMPT)
        .env("UNDER", under.unwrap_or_default());
    Pty::start(&mut command, Some(server.log_file()))
}

const PROMPT: &str = "prompt> ";

/// A shell with job control, to which lines are typed that the terminal does not show.
pub struct Interactive {
    pub terminal: Pty,
}

impl Interactive {
    /// What can be started as one: `bash` and `dash`.
    pub const SHELLS: [&[&str]; 2] = [
        &["bash", "--norc", "--noprofile", "--noediting", "-i"],
        &["dash", "-i"],
    ];

    /// Starts one of [`Self::SHELLS`]; `$UNDER` is as for [`on_terminal`].
    #[track_caller]
    pub fn start(shell: &[&str], lock: &str) -> Self {
        let mut terminal = on_terminal(shell, Some(lock));
        terminal.wait_for(PROMPT);
        let mut shell = Self { terminal };
        shell.enter("stty -echo; echo unseen");
        shell.terminal.wait_for("\r\nunseen\r\n");
        shell.terminal.wait_for(PROMPT);
        shell
    }

    /// Types a line.
    #[track_caller]
    pub fn enter(&mut self, line: &str) {
        self.terminal.write(format!("{line}\n").as_bytes());
    }

    /// Types Ctrl-Z, and waits until the shell says that the job is stopped.
    #[track_caller]
    pub fn stop(&mut self) {
        self.terminal.write(b"\x1a");
        self.terminal.wait_for("Stopped");
        self.terminal.wait_for(PROMPT);
    }

    /// Waits until the foreground job has ended with this status.
    #[track_caller]
    pub fn expect_status(&mut self, status: i32) {
        self.terminal.wait_for(PROMPT);
        self.enter("echo status $?");
        self.terminal.wait_for(&format!("status {status}\r\n"));
        self.terminal.wait_for(PROMPT);
    }

    /// Ends the shell, which has no jobs any more.
    #[track_caller]
    pub fn leave(mut self) {
        self.enter("exit 0");
        self.terminal.wait().assert_code(0);
    }
}
