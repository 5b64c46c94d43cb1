//! Servers for tests: one shared by all, and private ones that a test may stop, break and read the log of.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, Ordering};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::installation::{program, template};
use super::process::anybody_works_in;
use super::server_log;
use super::wait::until;
use super::watchdog::Watchdog;

/// Below Linux's range for outgoing connections, so that none of those takes a server's port between stop and start.
const PORTS: std::ops::Range<u16> = 20_000..32_000;

const START_ATTEMPTS: u32 = 5;

/// Durability is of no use to a server that lives for a test; the rest is what the tests count on.
const SETTINGS: &str = "
fsync = off
password_encryption = scram-sha-256
synchronous_commit = off
full_page_writes = off
shared_buffers = 16MB
dynamic_shared_memory_type = mmap
max_wal_size = 1GB
log_checkpoints = off
max_connections = 200
max_prepared_transactions = 16
log_destination = stderr
logging_collector = off
log_min_messages = warning
log_line_prefix = '%m [%p] %a '
";

/// How [`Server::stop`] asks the server to end: the names of `pg_ctl stop -m`.
#[derive(Clone, Copy, Debug)]
pub enum Shutdown {
    /// Waits for all sessions to end.
    Smart,
    /// Ends the sessions in an orderly way.
    Fast,
    /// Drops everything, as a crash does.
    Immediate,
}

/// A running server, which ends with this value or with the test process.
pub struct Server {
    watchdog: Watchdog,
    host: String,
    port: u16,
    postmaster: AtomicI32,
}

impl Server {
    /// The one server of this test process, for tests which neither stop it nor read its log.
    pub fn shared() -> &'static Self {
        static SHARED: OnceLock<Server> = OnceLock::new();
        SHARED.get_or_init(Self::start)
    }

    /// Starts a private server.
    pub fn start() -> Self {
        Self::with(&[])
    }

    /// Starts a private server with settings of its own, each a line of postgresql.conf: `"max_connections = 5"`.
    pub fn with(settings: &[&str]) -> Self {
        let watchdog = Watchdog::start();
        let data = watchdog.directory().join("data");
        let model = template().directory().join("data");
        watchdog.run(&["cp", "-a", "--reflink=auto", path(&model), path(&data)]);

        let mut server = Self {
            watchdog,
            host: String::new(),
            port: 0,
            postmaster: AtomicI32::new(0),
        };
        for _ in 0..START_ATTEMPTS {
            fs::write(server.watchdog.log(), "").expect("the log can be emptied");
            (server.host, server.port) = (random_host(), fastrand::u16(PORTS));
            server.configure(
                &fs::read_to_string(model.join("postgresql.conf")).unwrap(),
                settings,
            );
            if server.launch() {
                return server;
            }
        }
        panic!("the server does not start:\n{}", server.log());
    }

    /// The environment that leads a client here: the socket, as superuser, to the database `postgres`.
    pub fn env(&self) -> Vec<(String, String)> {
        let port = self.port.to_string();
        [
            ("PGHOST", path(self.socket_dir())),
            ("PGPORT", &port),
            ("PGUSER", "postgres"),
            ("PGDATABASE", "postgres"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .to_vec()
    }

    /// The loopback address that the server listens on for TCP.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The port, of TCP and of the socket's name.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The directory of the socket, and of everything else the server has.
    pub fn socket_dir(&self) -> &Path {
        self.watchdog.directory()
    }

    /// The data directory.
    pub fn data_dir(&self) -> PathBuf {
        self.watchdog.directory().join("data")
    }

    /// Everything the server has logged.
    pub fn log(&self) -> String {
        self.watchdog.read_log()
    }

    /// The file of [`Self::log`].
    pub fn log_file(&self) -> PathBuf {
        self.watchdog.log()
    }

    /// The first lines of all messages of level WARNING, ERROR, FATAL and PANIC.
    pub fn log_lines_at_or_above_warning(&self) -> Vec<String> {
        server_log::grave_lines(&self.log())
    }

    /// Stops the server and waits until it has ended; its directory stays.
    pub fn stop(&self, how: Shutdown) {
        let signal = match how {
            Shutdown::Smart => Signal::SIGTERM,
            Shutdown::Fast => Signal::SIGINT,
            Shutdown::Immediate => Signal::SIGQUIT,
        };
        kill(self.postmaster_pid(), signal).expect("the server runs");
        until("the end of the server", || self.watchdog.saw_the_end());
    }

    /// Kills the postmaster, and waits until its server's last process has noticed.
    pub fn crash(&self) {
        kill(self.postmaster_pid(), Signal::SIGKILL).expect("the server runs");
        until("the end of the server", || self.watchdog.saw_the_end());
        let data = self.data_dir();
        until("the end of the server's processes", || {
            !anybody_works_in(&data)
        });
    }

    /// Starts the stopped server with the same data, settings and addresses.
    pub fn start_again(&self) {
        assert!(
            self.launch(),
            "the server does not start again:\n{}",
            self.log()
        );
    }

    /// The server's first process, the postmaster.
    pub fn postmaster_pid(&self) -> Pid {
        Pid::from_raw(self.postmaster.load(Ordering::SeqCst))
    }

    /// The process that clears the server away.
    pub fn watchdog_pid(&self) -> Pid {
        self.watchdog.pid()
    }

    fn configure(&self, initial: &str, settings: &[&str]) {
        let text = format!(
            "{initial}{SETTINGS}listen_addresses = '{}'\nport = {}\nunix_socket_directories = '{}'\n{}\n",
            self.host,
            self.port,
            path(self.socket_dir()),
            settings.join("\n"),
        );
        fs::write(self.data_dir().join("postgresql.conf"), text)
            .expect("postgresql.conf can be written");
    }

    /// Starts the server and waits until it takes connections; `false` if it ended instead.
    fn launch(&self) -> bool {
        let pid = self
            .watchdog
            .launch(&[&program("postgres"), "-D", path(&self.data_dir())]);
        self.postmaster.store(pid.as_raw(), Ordering::SeqCst);
        until("the start of the server", || {
            if self.watchdog.saw_the_end() {
                return Some(false);
            }
            says_ready(&self.data_dir(), pid).then_some(true)
        })
    }
}

/// Whether the lock file's eighth line, which `pg_ctl --wait` reads as well, reports this process as ready.
///
/// Connecting instead would log a FATAL for each attempt that came too early.
fn says_ready(data: &Path, pid: Pid) -> bool {
    let text = fs::read_to_string(data.join("postmaster.pid")).unwrap_or_default();
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    lines.first() == Some(&pid.to_string().as_str()) && lines.get(7) == Some(&"ready")
}

/// A loopback address for one server, so that two test runs seldom ask for the same port.
fn random_host() -> String {
    format!(
        "127.{}.{}.{}",
        fastrand::u8(1..255),
        fastrand::u8(..),
        fastrand::u8(1..255)
    )
}

fn path(path: &Path) -> &str {
    path.to_str().expect("the harness makes plain paths")
}
