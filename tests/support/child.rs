//! A process of a test: watched while it runs, bounded in time, and never left behind.

use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::finished::Finished;
use super::process::kill_tree;
use super::stream::Stream;

/// Far above what any test's process needs: only a hanging one meets it.
const LIMIT: Duration = Duration::from_secs(60);

/// Bounds the error of [`Finished::took`].
const PERIOD: Duration = Duration::from_millis(1);

/// A process that was started and not yet waited for. Dropped, it is killed and reaped.
pub struct Running {
    command: String,
    child: Child,
    started: Instant,
    stdin: Option<ChildStdin>,
    stdout: Option<Stream>,
    stderr: Option<Stream>,
    server_log: Option<PathBuf>,
}

impl Running {
    /// Starts the command with its standard input held open and both output streams collected.
    #[track_caller]
    pub fn start(command: &mut Command) -> Self {
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut running = Self::start_as_is(command);
        running.stdin = running.child.stdin.take();
        running.stdout = running.child.stdout.take().map(Stream::collect);
        running.stderr = running.child.stderr.take().map(Stream::collect);
        running
    }

    /// Starts the command with the streams it was given, which nobody collects.
    #[track_caller]
    pub fn start_as_is(command: &mut Command) -> Self {
        let words = [command.get_program()]
            .into_iter()
            .chain(command.get_args());
        let words: Vec<String> = words
            .map(|word| word.to_string_lossy().into_owned())
            .collect();
        let line = shlex::try_join(words.iter().map(String::as_str)).expect("no NUL in a command");
        let started = Instant::now();
        let child = command
            .spawn()
            .unwrap_or_else(|error| panic!("{line}: {error}"));
        Self {
            command: line,
            child,
            started,
            stdin: None,
            stdout: None,
            stderr: None,
            server_log: None,
        }
    }

    /// Collects this as the standard output: a terminal's master.
    pub fn with_stdout(mut self, stdout: Stream) -> Self {
        self.stdout = Some(stdout);
        self
    }

    /// Shows this log's tail when something fails.
    pub fn with_server_log(mut self, server_log: Option<PathBuf>) -> Self {
        self.server_log = server_log;
        self
    }

    /// The process's number.
    pub fn pid(&self) -> Pid {
        Pid::from_raw(self.child.id().cast_signed())
    }

    /// Whether the process has not ended yet.
    pub fn is_running(&mut self) -> bool {
        self.status().is_none()
    }

    /// Sends a signal, unless the process has ended.
    #[track_caller]
    pub fn signal(&mut self, signal: Signal) {
        assert!(
            self.is_running(),
            "{signal} for a process that has ended: {}",
            self.command
        );
        kill(self.pid(), signal).expect("a child that was not reaped takes signals");
    }

    /// Writes to standard input, and panics if nobody reads it any more.
    #[track_caller]
    pub fn write(&mut self, bytes: &[u8]) {
        let stdin = self.stdin.as_mut().expect("standard input is open");
        if let Err(error) = stdin.write_all(bytes) {
            self.fail(&format!("no standard input: {error}"));
        }
    }

    /// Ends standard input.
    pub fn close_stdin(&mut self) {
        self.stdin = None;
    }

    /// Standard input, for somebody else to write to and to end.
    pub fn take_stdin(&mut self) -> Option<ChildStdin> {
        self.stdin.take()
    }

    /// Standard output until now, as it is.
    pub fn stdout_bytes_so_far(&self) -> Vec<u8> {
        self.stdout.as_ref().map(Stream::so_far).unwrap_or_default()
    }

    /// Standard output until now.
    pub fn stdout_so_far(&self) -> String {
        String::from_utf8_lossy(&self.stdout_bytes_so_far()).into_owned()
    }

    /// Standard error until now.
    pub fn stderr_so_far(&self) -> String {
        let bytes = self.stderr.as_ref().map(Stream::so_far).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Waits until standard output has this line, and panics if the process ends without it.
    #[track_caller]
    pub fn wait_line(&mut self, line: &str) {
        self.wait_output(
            &format!("the line {line:?} on standard output"),
            |running| {
                let text = running.stdout_so_far();
                // What has no newline yet may go on.
                text.split_inclusive('\n')
                    .any(|each| each.strip_suffix('\n') == Some(line))
            },
        );
    }

    /// Waits until standard error has this text, and panics if the process ends without it.
    #[track_caller]
    pub fn wait_stderr(&mut self, text: &str) {
        self.wait_output(&format!("{text:?} on standard error"), |running| {
            running.stderr_so_far().contains(text)
        });
    }

    /// Waits until the output so far satisfies the probe, and panics if the process ends without that.
    #[track_caller]
    pub fn wait_output(&mut self, what: &str, probe: impl Fn(&Self) -> bool) {
        let start = Instant::now();
        loop {
            // In this order: once the end was seen, nothing comes any more.
            let complete = self.has_said_all();
            if probe(self) {
                return;
            }
            let late = start.elapsed() > LIMIT;
            if complete || late {
                self.fail(&format!("{what} did not come"));
            }
            thread::sleep(PERIOD);
        }
    }

    /// Waits for the end, for at most 60 seconds; standard input stays open meanwhile.
    #[track_caller]
    pub fn wait(mut self) -> Finished {
        let start = Instant::now();
        while self.is_running() {
            if start.elapsed() > LIMIT {
                self.fail(&format!("not ended after {LIMIT:?}"));
            }
            thread::sleep(PERIOD);
        }
        self.conclude()
    }

    /// Ends standard input and waits for the end of the process.
    #[track_caller]
    pub fn let_go(mut self) -> Finished {
        self.close_stdin();
        self.wait()
    }

    fn status(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("a child can be waited for")
    }

    fn has_said_all(&mut self) -> bool {
        if self.is_running() {
            return false;
        }
        let streams = [&self.stdout, &self.stderr];
        streams
            .iter()
            .copied()
            .flatten()
            .for_each(Stream::writer_ended);
        streams.iter().copied().flatten().all(Stream::is_complete)
    }

    #[track_caller]
    fn fail(&mut self, what: &str) -> ! {
        self.kill();
        panic!("{what}\n{:?}", self.conclude());
    }

    /// Ends the process, if it still runs, with everything it started.
    fn kill(&mut self) {
        if self.is_running() {
            kill_tree(self.pid());
        }
    }

    fn conclude(&mut self) -> Finished {
        let status = self.child.wait().expect("a child can be waited for");
        let took = self.started.elapsed();
        let stdout_bytes = self.stdout.take().map(Stream::finish).unwrap_or_default();
        let stderr_bytes = self.stderr.take().map(Stream::finish).unwrap_or_default();
        Finished {
            command: self.command.clone(),
            code: status.code(),
            signal: status.signal(),
            stdout: String::from_utf8_lossy(&stdout_bytes).into_owned(),
            stdout_bytes,
            stderr: String::from_utf8_lossy(&stderr_bytes).into_owned(),
            took,
            server_log: self.server_log.clone(),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.kill();
        drop(self.child.wait());
        [&self.stdout, &self.stderr]
            .into_iter()
            .flatten()
            .for_each(Stream::writer_ended);
    }
}
