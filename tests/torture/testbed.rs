//! What a campaign stands on: a server, everything that lies before it, and a directory.

use std::env;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicBool, Ordering};

use nix::sys::signal::{Signal, kill};

use crate::link::{self, Link};
use crate::plan::KEYS;
use crate::support::{Pglock, PoolMode, Pooler, Proxy, Server};
use crate::way::Way;

/// The variable that every process of a campaign has in its environment, whoever starts it.
pub const MARK: &str = "PGLOCK_TORTURE";

/// Enough for all who go through a pooler.
const POOL_SIZE: usize = 12;

/// A pooler that found the server away asks again after a second instead of fifteen.
const POOLER: [&str; 1] = ["server_login_retry = 1"];

/// The server tells errors by their SQLSTATE.
const LOG: &str = "log_line_prefix = '%m [%p] %e '";

/// Servers, poolers, proxies and the directory, which vanish with this value.
pub struct Testbed {
    pub server: Server,
    pub proxy: Proxy,
    pub session_pool: Pooler,
    transaction_pool: Pooler,
    pub link: Option<Link>,
    directory: PathBuf,
    over: AtomicBool,
}

impl Testbed {
    pub fn build() -> io::Result<Self> {
        let link = Link::lay()?;
        // In a network namespace of its own every address is the campaign's.
        let settings: &[&str] = match link {
            Some(_) => &[LOG, "listen_addresses = '*'"],
            None => &[LOG],
        };
        let server = Server::with(settings);
        if link.is_some() {
            let_in_clients_of_link(&server)?;
        }
        let directory = env::temp_dir().join(format!("pglock-torture.{}", process::id()));
        fs::create_dir(&directory)?;
        fs::set_permissions(&directory, Permissions::from_mode(0o700))?;
        for key in 0..KEYS {
            File::create(directory.join(format!("key-{key}")))?;
        }
        let bed = Self {
            proxy: Proxy::to(&server),
            session_pool: Pooler::start(&server, PoolMode::Session, POOL_SIZE, &POOLER),
            transaction_pool: Pooler::start(&server, PoolMode::Transaction, POOL_SIZE, &POOLER),
            server,
            link,
            directory,
            over: AtomicBool::new(false),
        };
        File::create(bed.journal())?;
        Ok(bed)
    }

    /// pglock, led this way, without a terminal.
    pub fn pglock(&self, way: Way) -> Pglock {
        let pglock = Pglock::new(&self.server);
        match way {
            Way::Socket => pglock.through(&["setsid"]),
            Way::Proxy => pglock.envs(self.proxy.env()).through(&["setsid"]),
            Way::SessionPool => pglock.envs(self.session_pool.env()).through(&["setsid"]),
            Way::TransactionPool => pglock
                .envs(self.transaction_pool.env())
                .through(&["setsid"]),
            Way::Link => match &self.link {
                Some(link) => {
                    let [program, namespace] = link.entrance();
                    pglock
                        .env("PGHOST", link::SERVER)
                        .through(&["setsid"])
                        .through(&[&program, &namespace])
                }
                None => pglock.through(&["setsid"]),
            },
        }
    }

    /// Where the jobs and pglock's messages leave their traces.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// What the jobs write.
    pub fn journal(&self) -> PathBuf {
        self.directory.join("journal")
    }

    /// The value of [`MARK`], which no other campaign has.
    pub fn mark(&self) -> &str {
        self.directory.to_str().expect("a plain path")
    }

    /// Whether no more runs and faults are to begin.
    pub fn is_over(&self) -> bool {
        self.over.load(Ordering::SeqCst)
    }

    pub fn finish(&self) {
        self.over.store(true, Ordering::SeqCst);
    }

    /// Removes the directory.
    pub fn clear(&self) -> io::Result<()> {
        fs::remove_dir_all(&self.directory)
    }
}

fn let_in_clients_of_link(server: &Server) -> io::Result<()> {
    let file = server.data_dir().join("pg_hba.conf");
    let mut file = OpenOptions::new().append(true).open(file)?;
    writeln!(file, "host all all {}/32 trust", link::CLIENT)?;
    kill(server.postmaster_pid(), Signal::SIGHUP)?;
    Ok(())
}
