//! The servers and programs that `scripts/bench` has made ready, and the ways to them.

use std::env;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

/// Everything that is measured lives here.
pub struct Site {
    pub pglock: PathBuf,
    pub floor: PathBuf,
    pub libpq_floor: PathBuf,
    /// psql itself: what Debian has in the PATH is a Perl script that looks for it.
    pub psql: PathBuf,
    /// The folder of the server's Unix socket; its data is in `data` below.
    pub socket: String,
    pub address: String,
    pub port: u16,
    /// The file of the certificate that the server has for `localhost` and for its address.
    pub certificate: String,
    /// A file that only flock(1) locks.
    pub lock_file: PathBuf,
    /// The folder of the programs that npm and pip have installed, unless they are to be left out.
    pub peers: Option<PathBuf>,
    /// Where etcd answers, unless it is to be left out.
    pub etcd: Option<String>,
}

/// How a program gets to what grants the lock.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// PostgreSQL's Unix socket, by trust.
    Socket,
    /// TCP without TLS, by trust.
    Tcp,
    /// TCP with TLS, name and certificate verified (`verify-full`), and a password by SCRAM.
    Tls,
    /// No PostgreSQL at all: what else this peer locks.
    Own,
}

/// A way to the server, by its own address and port or by a relay's.
pub struct Place<'a> {
    site: &'a Site,
    pub way: Way,
    pub address: String,
    pub port: u16,
}

/// The role that logs in with a password, and that password: no secret, as it may do nothing but lock.
const PASSWORD_ROLE: &str = "bench_password";
const PASSWORD: &str = "bench";

/// How long everything may take that happens once.
const PATIENCE: Duration = Duration::from_secs(120);
/// Who looks more often is himself a load.
const LOOK_EVERY: Duration = Duration::from_millis(20);

impl Site {
    pub fn from_environment() -> Result<Self> {
        Ok(Self {
            pglock: path("BENCH_PGLOCK")?,
            floor: path("BENCH_FLOOR")?,
            libpq_floor: path("BENCH_LIBPQ_FLOOR")?,
            psql: path("BENCH_PSQL")?,
            socket: text("BENCH_SOCKET")?,
            address: text("BENCH_ADDRESS")?,
            port: text("BENCH_PORT")?.parse().context("BENCH_PORT")?,
            certificate: text("BENCH_CERTIFICATE")?,
            lock_file: path("BENCH_LOCK_FILE")?,
            peers: env::var_os("BENCH_PEERS").map(PathBuf::from),
            etcd: env::var("BENCH_ETCD").ok(),
        })
    }

    pub fn place(&self, way: Way) -> Place<'_> {
        Place {
            site: self,
            way,
            address: self.address.clone(),
            port: self.port,
        }
    }

    /// The same through a relay that listens on this port of 127.0.0.1.
    pub fn place_behind(&self, way: Way, port: u16) -> Place<'_> {
        Place {
            site: self,
            way,
            address: "127.0.0.1".to_owned(),
            port,
        }
    }

    /// psql as a superuser on the Unix socket, for what is asked beside the measurements.
    pub fn psql(&self) -> Command {
        let mut psql = Command::new(&self.psql);
        psql.args(["-qXAt", "-U", "postgres", "-d", "postgres"])
            .args(["-h", &self.socket, "-p", &self.port.to_string()])
            .stdin(Stdio::null());
        psql
    }

    /// The one value that a statement gives.
    pub fn ask(&self, sql: &str) -> Result<String> {
        let answer = self.psql().args(["-c", sql]).output()?;
        if !answer.status.success() {
            bail!("{sql}: {}", String::from_utf8_lossy(&answer.stderr));
        }
        Ok(String::from_utf8(answer.stdout)?.trim().to_owned())
    }

    /// Waits until there are so many sessions whose `application_name` begins so.
    pub fn await_sessions(&self, called: &str, wanted: u32) -> Result<()> {
        let sql = format!(
            "SELECT count(*) FROM pg_stat_activity WHERE starts_with(application_name, '{called}')"
        );
        self.await_value(&sql, |sessions| sessions >= wanted)
    }

    /// Waits until a statement gives a number that is wanted.
    pub fn await_value(&self, sql: &str, is_wanted: impl Fn(u32) -> bool) -> Result<()> {
        let begun = Instant::now();
        loop {
            let value = self.ask(sql)?.parse()?;
            if is_wanted(value) {
                return Ok(());
            }
            if begun.elapsed() > PATIENCE {
                bail!("{sql}: still {value}");
            }
            sleep(LOOK_EVERY);
        }
    }
}

impl Place<'_> {
    /// A connection string as libpq and pglock read it. Kerberos, which libpq would look for, is ruled out.
    pub fn conninfo(&self) -> String {
        let Self { address, port, .. } = self;
        let common = format!("port={port} dbname=postgres gssencmode=disable");
        match self.way {
            Way::Socket => {
                let socket = &self.site.socket;
                format!("host={socket} user=bench sslmode=disable {common}")
            }
            Way::Tcp => format!("host={address} user=bench sslmode=disable {common}"),
            Way::Tls => {
                let certificate = &self.site.certificate;
                format!(
                    "host=localhost hostaddr={address} user={PASSWORD_ROLE} password={PASSWORD} \
                     sslmode=verify-full sslrootcert={certificate} {common}"
                )
            }
            Way::Own => String::new(),
        }
    }

    /// The same as a URL, as JavaScript's client reads it.
    pub fn url(&self) -> String {
        let Self { address, port, .. } = self;
        match self.way {
            Way::Socket => {
                let socket = &self.site.socket;
                format!("postgres:///postgres?host={socket}&port={port}&user=bench")
            }
            Way::Tcp => format!("postgres://bench@{address}:{port}/postgres"),
            Way::Tls => {
                let certificate = &self.site.certificate;
                format!(
                    "postgres://{PASSWORD_ROLE}:{PASSWORD}@{address}:{port}/postgres?sslmode=verify-full&sslrootcert={certificate}"
                )
            }
            Way::Own => String::new(),
        }
    }

    /// The host, or the folder of the socket.
    pub fn host(&self) -> &str {
        match self.way {
            Way::Socket => &self.site.socket,
            Way::Tcp | Way::Tls | Way::Own => &self.address,
        }
    }
}

impl Way {
    pub fn label(self) -> &'static str {
        match self {
            Self::Socket => "Unix socket",
            Self::Tcp => "TCP",
            Self::Tls => "TLS, SCRAM",
            Self::Own => "no PostgreSQL",
        }
    }
}

fn text(variable: &str) -> Result<String> {
    env::var(variable).with_context(|| format!("{variable}: start scripts/bench, which sets it"))
}

fn path(variable: &str) -> Result<PathBuf> {
    let value: Option<OsString> = env::var_os(variable);
    value
        .map(PathBuf::from)
        .with_context(|| format!("{variable}: start scripts/bench, which sets it"))
}
