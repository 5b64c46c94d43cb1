//! Connection poolers in front of a server: `PgBouncer` in each of its modes, and Pgpool-II.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI32, Ordering};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use postgres::{Client, Config, NoTls};

use super::server::Server;
use super::wait::until;
use super::watchdog::Watchdog;

/// Only the name of a socket in the pooler's own directory: no pooler here listens on TCP.
const PORT: u16 = 6432;

/// When a pooler takes a client's backend away again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PoolMode {
    /// When the client leaves.
    Session,
    /// After each transaction.
    Transaction,
    /// After each statement.
    Statement,
}

/// A running pooler, which ends with this value or with the test process.
pub struct Pooler {
    watchdog: Watchdog,
    /// The program and its arguments.
    words: Vec<String>,
    pid: AtomicI32,
}

impl Pooler {
    /// Starts `PgBouncer` with at most `pool_size` backends for each database and user, and with further settings, each
    /// a line of its `[pgbouncer]` section: `"server_round_robin = 1"`.
    #[track_caller]
    pub fn start(server: &Server, mode: PoolMode, pool_size: usize, settings: &[&str]) -> Self {
        let mode = match mode {
            PoolMode::Session => "session",
            PoolMode::Transaction => "transaction",
            PoolMode::Statement => "statement",
        };
        let (host, port) = (server.socket_dir().display(), server.port());
        let watchdog = Watchdog::start();
        // The clients' users need no password here, so that the server's user is to be named.
        let file = write(
            &watchdog,
            "pgbouncer.ini",
            &format!(
                "[databases]\n* = host={host} port={port} user=postgres\n\
                 [pgbouncer]\nlisten_port = {PORT}\nunix_socket_dir = {}\nauth_type = any\n\
                 pool_mode = {mode}\ndefault_pool_size = {pool_size}\nmax_client_conn = 200\n{}\n",
                watchdog.directory().display(),
                settings.join("\n"),
            ),
        );
        Self::launch(watchdog, &[&program("pgbouncer"), path(&file)])
    }

    /// Starts Pgpool-II in front of this server alone.
    #[track_caller]
    pub fn pgpool(server: &Server) -> Self {
        let watchdog = Watchdog::start();
        let directory = watchdog.directory().display();
        let mut settings = format!(
            "backend_clustering_mode = 'raw'\nbackend_hostname0 = '{}'\nbackend_port0 = {}\n\
             listen_addresses = ''\npcp_listen_addresses = ''\nport = {PORT}\nnum_init_children = 8\n",
            server.socket_dir().display(),
            server.port(),
        );
        for directory_of in [
            "socket_dir",
            "pcp_socket_dir",
            "wd_ipc_socket_dir",
            "logdir",
        ] {
            writeln!(settings, "{directory_of} = '{directory}'").unwrap();
        }
        writeln!(settings, "pid_file_name = '{directory}/pid'").unwrap();
        let settings = write(&watchdog, "pgpool.conf", &settings);
        let pcp = write(&watchdog, "pcp.conf", "");
        let words = [
            &program("pgpool"),
            "-n",
            "-f",
            path(&settings),
            "-F",
            path(&pcp),
        ];
        Self::launch(watchdog, &words)
    }

    /// The environment that leads a client here, as superuser to the database `postgres`; to be put over that of the
    /// server.
    pub fn env(&self) -> [(&'static str, String); 4] {
        [
            ("PGHOST", path(self.watchdog.directory()).to_owned()),
            ("PGPORT", PORT.to_string()),
            ("PGUSER", "postgres".to_owned()),
            ("PGDATABASE", "postgres".to_owned()),
        ]
    }

    /// The socket that it listens on.
    pub fn socket(&self) -> PathBuf {
        let name = format!(".s.PGSQL.{PORT}");
        self.watchdog.directory().join(name)
    }

    /// A superuser's session in this database, through the pooler. It is for simple queries: a prepared statement is
    /// known to one backend only.
    #[track_caller]
    pub fn client(&self, database: &str) -> Client {
        self.try_client(database)
            .unwrap_or_else(|error| panic!("{error:?}\n{}", self.log()))
    }

    /// Stops `PgBouncer`'s only process: its kernel still takes and acknowledges what is sent to it.
    #[track_caller]
    pub fn freeze(&self) {
        kill(self.pid(), Signal::SIGSTOP).expect("it runs as long as this lives");
    }

    /// Stops `PgBouncer`, which drops all its connections, and waits until it has ended.
    #[track_caller]
    pub fn stop(&self) {
        kill(self.pid(), Signal::SIGTERM).expect("it runs as long as this lives");
        until("the end of the pooler", || self.watchdog.saw_the_end());
    }

    /// Starts the stopped pooler with the same settings.
    #[track_caller]
    pub fn start_again(&self) {
        let pid = self.watchdog.launch(&self.words());
        self.pid.store(pid.as_raw(), Ordering::SeqCst);
        self.await_start();
    }

    /// Everything the pooler has logged.
    pub fn log(&self) -> String {
        self.watchdog.read_log()
    }

    fn try_client(&self, database: &str) -> Result<Client, postgres::Error> {
        Config::new()
            .host_path(self.watchdog.directory())
            .port(PORT)
            .dbname(database)
            .user("postgres")
            .application_name("test")
            .connect(NoTls)
    }

    /// Starts the pooler where the watchdog looks for what it has to end, and waits until it lets a client in.
    #[track_caller]
    fn launch(watchdog: Watchdog, words: &[&str]) -> Self {
        let data = watchdog.directory().join("data");
        watchdog.run(&["mkdir", path(&data)]);
        let there = ["env", "-C", path(&data)];
        let words = there.iter().chain(words).copied();
        let pooler = Self {
            words: words.map(str::to_owned).collect(),
            watchdog,
            pid: AtomicI32::new(0),
        };
        pooler.start_again();
        pooler
    }

    #[track_caller]
    fn await_start(&self) {
        until("the start of the pooler", || {
            let ended = self.watchdog.saw_the_end();
            assert!(!ended, "{:?} has ended:\n{}", self.words, self.log());
            self.try_client("postgres").is_ok()
        });
    }

    fn words(&self) -> Vec<&str> {
        self.words.iter().map(String::as_str).collect()
    }

    fn pid(&self) -> Pid {
        Pid::from_raw(self.pid.load(Ordering::SeqCst))
    }
}

/// Writes a file of the watchdog's user into its directory.
fn write(watchdog: &Watchdog, name: &str, text: &str) -> PathBuf {
    let file = watchdog.directory().join(name);
    watchdog.run(&["touch", path(&file)]);
    fs::write(&file, text).expect("a file of the watchdog's can be written");
    file
}

/// The path of a daemon, which is not always on the PATH of those who run tests.
#[track_caller]
fn program(name: &str) -> String {
    let places = std::env::var("PATH").unwrap_or_default() + ":/usr/sbin:/usr/local/sbin";
    let found = places.split(':').map(|place| Path::new(place).join(name));
    let found = found.into_iter().find(|path| path.exists());
    let found = found.unwrap_or_else(|| panic!("{name} is missing: scripts/install-needs"));
    path(&found).to_owned()
}

fn path(path: &Path) -> &str {
    path.to_str().expect("the harness makes plain paths")
}
