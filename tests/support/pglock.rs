//! The pglock binary under test, in an environment that holds nothing but what the test puts there.

use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

use super::child::Running;
use super::finished::Finished;
use super::pty::Pty;
use super::server::Server;

/// The program under test.
pub fn binary() -> OsString {
    let built = OsStr::new(env!("CARGO_BIN_EXE_pglock")).to_owned();
    std::env::var_os("PGLOCK_TEST_BIN").unwrap_or(built)
}

/// One call of pglock, in the making.
pub struct Pglock {
    command: Command,
    /// Kept apart until the start, for [`Self::hold`] puts a word in front.
    arguments: Vec<OsString>,
    stdin: Option<Vec<u8>>,
    server_log: Option<PathBuf>,
}

impl Pglock {
    /// pglock with an environment that leads it to the server.
    pub fn new(server: &Server) -> Self {
        let mut pglock = Self::without_server().envs(server.env());
        pglock.server_log = Some(server.log_file());
        pglock
    }

    /// pglock with an environment that leads it nowhere: the default socket of no server of ours.
    pub fn without_server() -> Self {
        let mut command = Command::new(binary());
        command
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", "/nonexistent")
            .env("LANG", "C.UTF-8");
        Self {
            command,
            arguments: Vec::new(),
            stdin: None,
            server_log: None,
        }
    }

    /// Adds an argument.
    pub fn arg(self, argument: impl AsRef<OsStr>) -> Self {
        self.args([argument])
    }

    /// Adds arguments.
    pub fn args(mut self, arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Self {
        let arguments = arguments.into_iter().map(|word| word.as_ref().to_owned());
        self.arguments.extend(arguments);
        self
    }

    /// Sets an environment variable.
    pub fn env(self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.envs([(name, value)])
    }

    /// Sets environment variables: `envs(proxy.env())`.
    pub fn envs(
        mut self,
        variables: impl IntoIterator<Item = (impl AsRef<OsStr>, impl AsRef<OsStr>)>,
    ) -> Self {
        self.command.envs(variables);
        self
    }

    /// Removes an environment variable.
    pub fn env_remove(mut self, name: impl AsRef<OsStr>) -> Self {
        self.command.env_remove(name);
        self
    }

    /// Gives these bytes on standard input, which then ends. Without them it is empty for [`Self::run`].
    pub fn stdin(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.stdin = Some(bytes.into());
        self
    }

    /// Sets the working directory.
    pub fn current_dir(mut self, directory: impl AsRef<Path>) -> Self {
        self.command.current_dir(directory);
        self
    }

    /// Lets this program start pglock: it gets pglock's path and arguments after its own, and must exec them.
    ///
    /// `through(&["env", "--ignore-signal=HUP"])`
    pub fn through(mut self, launcher: &[&str]) -> Self {
        let mut command = Command::new(launcher[0]);
        command
            .args(&launcher[1..])
            .arg(self.command.get_program())
            .args(self.command.get_args())
            .env_clear();
        let environment = self.command.get_envs();
        command.envs(environment.filter_map(|(name, value)| Some((name, value?))));
        if let Some(directory) = self.command.get_current_dir() {
            command.current_dir(directory);
        }
        self.command = command;
        self
    }

    /// The bare command with all arguments so far, for what this builder has no word for.
    ///
    /// `run`, `spawn` and `hold` replace its standard streams; to keep them, give it to [`Running::start_as_is`].
    pub fn command(&mut self) -> &mut Command {
        self.command.args(self.arguments.drain(..))
    }

    /// Runs pglock to its end, for at most 60 seconds.
    #[track_caller]
    pub fn run(mut self) -> Finished {
        let bytes = self.stdin.take().unwrap_or_default();
        self.stdin(bytes).spawn().wait()
    }

    /// Starts pglock; its standard input stays open unless bytes were given.
    #[track_caller]
    pub fn spawn(mut self) -> Running {
        let given = self.stdin.take();
        let log = self.server_log.take();
        let mut running = Running::start(self.command()).with_server_log(log);
        if let Some(bytes) = given {
            let mut pipe = running.take_stdin().expect("start holds it");
            // On a thread, since more than a pipe holds may be written; one who does not read it all is no fault.
            thread::spawn(move || drop(pipe.write_all(&bytes)));
        }
        running
    }

    /// Starts pglock on a terminal of its own.
    #[track_caller]
    pub fn on_terminal(mut self) -> Pty {
        let log = self.server_log.take();
        Pty::start(self.command(), log)
    }

    /// Takes the lock with `pglock run`, and gives the process once it holds it; the arguments so far are its options.
    ///
    /// The lock is held until [`Running::let_go`]. The command is `cat`, which proves that it runs by repeating a line;
    /// a shell that says so and then becomes `cat` could lose a signal in between.
    #[track_caller]
    pub fn hold(mut self, name: &str) -> Running {
        self.arguments.insert(0, "run".into());
        let mut running = self.args([name, "--", "cat"]).spawn();
        running.write(b"ready\n");
        running.wait_line("ready");
        running
    }
}
