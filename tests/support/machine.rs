//! Another machine: a copy of this one that a test may do anything with, and that is gone with it.

use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::process::Command;
use std::thread::{panicking, sleep};
use std::time::{Duration, Instant};

use nix::unistd::{Pid, geteuid};

use super::child::Running;
use super::pglock::binary;
use super::wait::{Answer, within};

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/machine.sh");

/// Far above what anything on a machine takes.
pub const LIMIT: Duration = Duration::from_secs(60);

/// For the processes of a machine to end, which were killed.
const END: Duration = Duration::from_secs(20);

/// A machine with a host name of its own, which has pglock in `/usr/local/bin`. Dropped, it is switched off.
///
/// It shares the network with this one, so servers are reached by TCP. Its `/run`, `/tmp` and `/dev` are its own, and so is all that
/// is written elsewhere.
pub struct Machine {
    watch: Running,
    first: Pid,
}

impl Machine {
    /// Makes a machine that is not started yet; `None`, which is printed, where that cannot be.
    #[track_caller]
    pub fn new(name: &str) -> Option<Self> {
        if !geteuid().is_root() {
            return not_tested(name, "a machine of its own needs root");
        }
        let mut command = private();
        if Running::start(command.arg("true")).wait().code != Some(0) {
            return not_tested(name, "no mount namespace can be made here");
        }
        let mut command = private();
        command
            .args(["sh", SCRIPT, "watch", name])
            .arg(binary())
            .env_clear()
            .env("PATH", PATH);
        let watch = Running::start(&mut command);
        let mut machine = Self {
            watch,
            first: Pid::from_raw(0),
        };
        machine.first = machine.await_watch("a machine", first_process);
        Some(machine)
    }

    /// Writes a file of root's, and the directories that lead to it.
    #[track_caller]
    pub fn install(&self, path: &str, text: &str, mode: u32) {
        let place = self.path(path);
        fs::create_dir_all(place.parent().expect("a file has a directory")).unwrap();
        fs::write(&place, text).unwrap_or_else(|error| panic!("{path}: {error}"));
        fs::set_permissions(&place, Permissions::from_mode(mode)).unwrap();
    }

    /// Removes what the machine has from this one, if it is there.
    #[track_caller]
    pub fn remove(&self, path: &str) {
        let place = self.path(path);
        if place.is_dir() {
            fs::remove_dir_all(place).unwrap();
        } else if place.exists() {
            fs::remove_file(place).unwrap();
        }
    }

    /// Lets the first process go on with this line of a shell.
    #[track_caller]
    pub fn start(&self, line: &str) {
        fs::write(self.path("/run/start"), format!("{line}\n")).unwrap();
    }

    /// Runs a program on the machine, which has to succeed, and gives what it says.
    #[track_caller]
    pub fn run(&self, words: &[&str]) -> String {
        let mut command = self.command(words[0]);
        let finished = Running::start(command.args(&words[1..])).wait();
        finished.assert_code(0);
        finished.stdout
    }

    /// A program that runs on the machine.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new("nsenter");
        command
            .args(["--target", &self.first.to_string()])
            .args(["--all", "--root", "--wd=/", "--"])
            .arg(program)
            .env_clear()
            .env("PATH", PATH);
        command
    }

    /// What a file has now; nothing if it is not there.
    pub fn read(&self, path: &str) -> String {
        String::from_utf8_lossy(&fs::read(self.path(path)).unwrap_or_default()).into_owned()
    }

    /// The first process, as this machine numbers it.
    pub fn first_process(&self) -> Pid {
        self.first
    }

    /// Waits until the first process has ended, and gives its status as a shell has it.
    #[track_caller]
    pub fn await_end(&self) -> i32 {
        self.await_watch("the end of the first process", off)
    }

    /// Waits until the console has this text.
    #[track_caller]
    pub fn await_said(&self, text: &str) {
        self.await_watch(text, |watch| said(watch).contains(text));
    }

    /// Waits for something on the console. Whatever comes of it, the machine is switched off in order.
    #[track_caller]
    fn await_watch<A: Answer>(&self, what: &str, probe: impl Fn(&Running) -> A) -> A::Found {
        let awaited = catch_unwind(AssertUnwindSafe(|| {
            within(LIMIT, what, || probe(&self.watch))
        }));
        awaited.unwrap_or_else(|_| panic!("{what} did not come:\n{}", self.console()))
    }

    /// What the first process has said so far, and those that it lets speak in its place.
    pub fn console(&self) -> String {
        said(&self.watch)
    }

    /// A path of the machine, as this one reaches it.
    pub fn path(&self, path: &str) -> PathBuf {
        PathBuf::from(format!("/proc/{}/root{path}", self.first))
    }
}

impl Drop for Machine {
    /// Waits until nothing of the machine is left.
    fn drop(&mut self) {
        self.watch.close_stdin();
        let switched_off = Instant::now();
        while self.watch.is_running() && switched_off.elapsed() < END {
            sleep(Duration::from_millis(1));
        }
        let is_left = self.watch.is_running();
        assert!(!is_left || panicking(), "a machine is left");
    }
}

/// Says so to whoever runs the tests, past what keeps the output of those that pass.
fn not_tested<T>(name: &str, why: &str) -> Option<T> {
    let _ = writeln!(io::stderr(), "{name}: {why}: not tested");
    None
}

const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Mounts of this command are nobody else's.
fn private() -> Command {
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation", "private"]);
    command
}

fn first_process(watch: &Running) -> Option<Pid> {
    let said = watch.stdout_so_far();
    let pid = said.split_once('\n')?.0.strip_prefix("machine ")?;
    pid.parse().ok().map(Pid::from_raw)
}

fn off(watch: &Running) -> Option<i32> {
    let said = watch.stdout_so_far();
    said.lines()
        .find_map(|line| line.strip_prefix("off ")?.parse().ok())
}

fn said(watch: &Running) -> String {
    watch.stdout_so_far() + &watch.stderr_so_far()
}
