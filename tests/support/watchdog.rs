//! A directory and the server in it, which vanish with this value or with the test process, however that ends.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Mutex;
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

use nix::unistd::{Pid, User, geteuid};

use super::sys;

const SCRIPT: &str = include_str!("watchdog.sh");

/// Longer than initdb takes on a busy machine.
const ANSWER_DEADLINE: Duration = Duration::from_secs(60);

/// The longest temporary directory under which socket paths stay below 107 bytes.
const LONGEST_PARENT: usize = 60;

/// A shell outside the test's session which holds one directory and at most one server.
///
/// It notices the end of the test process by the end of a pipe, of which nobody else holds the writing end: std opens
/// pipes close-on-exec. Neither a panic nor Ctrl-C nor kill -9 leaves anything behind.
pub struct Watchdog {
    directory: PathBuf,
    commands: Mutex<Option<ChildStdin>>,
    answers: Mutex<Receiver<String>>,
    shell: Child,
}

impl Watchdog {
    /// Starts a watchdog with an empty directory.
    ///
    /// As root it takes on the identity of `postgres` (or `nobody`), since the server's programs refuse root.
    pub fn start() -> Self {
        let mut command = Command::new("/bin/sh");
        command
            .args(["-c", SCRIPT, "watchdog"])
            .arg(parent_directory())
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("LANG", "C.UTF-8")
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        if let Some(user) = server_user() {
            command.uid(user.uid.as_raw()).gid(user.gid.as_raw());
        }
        sys::in_own_session(&mut command);

        let mut shell = command.spawn().expect("/bin/sh starts");
        let commands = shell.stdin.take();
        let answers = lines_of(shell.stdout.take().unwrap());
        let mut watchdog = Self {
            directory: PathBuf::new(),
            commands: Mutex::new(commands),
            answers: Mutex::new(answers),
            shell,
        };
        watchdog.directory = watchdog.expect("directory").into();
        watchdog
    }

    /// The directory, which is the server user's and which everybody may enter.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The file that takes the output of everything the watchdog runs.
    pub fn log(&self) -> PathBuf {
        self.directory.join("log")
    }

    /// The watchdog's own process.
    pub fn pid(&self) -> Pid {
        Pid::from_raw(self.shell.id().cast_signed())
    }

    /// Runs a program as the server's user to its end, and panics with the log if it fails.
    #[track_caller]
    pub fn run(&self, words: &[&str]) {
        self.tell("run", words);
        let status = self.expect("done");
        assert!(
            status == "0",
            "{words:?}: status {status}\n{}",
            self.read_log()
        );
    }

    /// Starts the server, as a child of the watchdog, and gives its process.
    pub fn launch(&self, words: &[&str]) -> Pid {
        self.tell("start", words);
        Pid::from_raw(self.expect("started").parse().unwrap())
    }

    /// Says whether the launched server has ended since it was last asked.
    pub fn saw_the_end(&self) -> bool {
        let answers = self.answers.lock().unwrap();
        answers.try_iter().any(|line| line.starts_with("ended "))
    }

    /// Reads the log, whatever its bytes are.
    pub fn read_log(&self) -> String {
        String::from_utf8_lossy(&fs::read(self.log()).unwrap_or_default()).into_owned()
    }

    fn tell(&self, verb: &str, words: &[&str]) {
        let words = shlex::try_join(words.iter().copied()).expect("no NUL in a command");
        let mut commands = self.commands.lock().unwrap();
        let pipe = commands.as_mut().expect("open until drop");
        writeln!(pipe, "{verb} {words}").expect("the watchdog listens");
    }

    /// Waits for the answer that begins with `word`, passes over others, and gives the rest of it.
    #[track_caller]
    fn expect(&self, word: &str) -> String {
        let answers = self.answers.lock().unwrap();
        loop {
            let line = answers
                .recv_timeout(ANSWER_DEADLINE)
                .unwrap_or_else(|error| {
                    panic!(
                        "the watchdog did not say {word:?}: {error}\n{}",
                        self.read_log()
                    )
                });
            if let Some((_, rest)) = line.split_once(' ').filter(|(first, _)| *first == word) {
                return rest.to_owned();
            }
        }
    }
}

impl Drop for Watchdog {
    /// Lets the watchdog go and waits until it has cleared everything away.
    fn drop(&mut self) {
        if let Ok(commands) = self.commands.get_mut() {
            commands.take();
        }
        drop(self.shell.wait());
    }
}

fn lines_of(pipe: ChildStdout) -> Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        for line in BufReader::new(pipe).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    receiver
}

fn parent_directory() -> PathBuf {
    let chosen = std::env::temp_dir();
    if chosen.as_os_str().len() > LONGEST_PARENT {
        return "/tmp".into();
    }
    chosen
}

fn server_user() -> Option<User> {
    if !geteuid().is_root() {
        return None;
    }
    ["postgres", "nobody"]
        .iter()
        .find_map(|name| User::from_name(name).ok().flatten())
}
