//! Where and how to connect, resolved once from options, environment and defaults.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use nix::unistd::{User, getuid};

use super::conninfo::{self, Parameters};
use crate::cli::ConnectionArgs;
use crate::environment;
use crate::exit::Fault;

/// Everything needed to open a session. The password has no way into any output: there is no Debug.
pub struct Settings {
    /// Tried in this order until one answers.
    pub hosts: Vec<Host>,
    pub user: String,
    pub database: String,
    pub password: Option<String>,
    /// Command-line options for the server (PGOPTIONS), sent only when the user gave some.
    pub server_options: Option<String>,
    pub tls: TlsMode,
    /// Covers name look-up, TCP, TLS and authentication of one host; `None` waits for ever.
    pub connect_timeout: Option<Duration>,
}

/// One server to try.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    pub address: Address,
    pub port: u16,
}

/// How a server is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// The directory of the server's Unix socket.
    UnixSocket(PathBuf),
    /// A name or a numeric address.
    Tcp(String),
}

/// `sslmode`, on TCP; a Unix socket never uses TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsMode {
    Disable,
    Prefer,
    Require,
}

/// The contract's default, where libpq would wait for ever.
const DEFAULT_CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
const DEFAULT_PORT: u16 = 5432;
/// Where Debian's and Red Hat's libpq look for the socket, and where upstream's does.
const SOCKET_DIRECTORIES: [&str; 2] = ["/var/run/postgresql", "/tmp"];

/// libpq's environment variables and their keywords (PostgreSQL documentation, 34.15).
const VARIABLES: [(&str, &str); 9] = [
    ("PGHOST", "host"),
    ("PGHOSTADDR", "hostaddr"),
    ("PGPORT", "port"),
    ("PGDATABASE", "dbname"),
    ("PGUSER", "user"),
    ("PGPASSWORD", "password"),
    ("PGOPTIONS", "options"),
    ("PGCONNECT_TIMEOUT", "connect_timeout"),
    ("PGSSLMODE", "sslmode"),
];

impl Settings {
    /// Options, then `PGLOCK_URL`, then PG* variables, then `DATABASE_URL` if none of these says where
    /// to connect, then libpq's defaults.
    pub fn resolve(args: &ConnectionArgs) -> anyhow::Result<Self> {
        let mut parameters = from_options(args)?;
        fill(&mut parameters, from_url("PGLOCK_URL")?);
        fill(&mut parameters, from_variables()?);
        if !says_where(&parameters) {
            fill(&mut parameters, from_url("DATABASE_URL")?);
        }
        Self::from_parameters(parameters)
    }

    fn from_parameters(mut parameters: Parameters) -> anyhow::Result<Self> {
        refuse_misplaced_uris(&parameters)?;
        let mut take = |name| parameters.remove(name).filter(|value| !value.is_empty());
        let hosts = hosts(take("host"), take("hostaddr"), take("port"))?;
        let tls = tls_mode(take("sslmode").as_deref())?;
        let connect_timeout = connect_timeout(take("connect_timeout"))?;
        let user = take("user").map_or_else(operating_system_user, Ok)?;
        let database = take("dbname").unwrap_or_else(|| user.clone());
        Ok(Self {
            hosts,
            database,
            user,
            password: take("password"),
            server_options: take("options"),
            tls,
            connect_timeout,
        })
    }
}

/// A URI where a name belongs would be quoted in the error that follows, with its password.
fn refuse_misplaced_uris(parameters: &Parameters) -> anyhow::Result<()> {
    for name in ["host", "dbname"] {
        if parameters
            .get(name)
            .is_some_and(|value| value.contains(":/"))
        {
            return Err(Fault::Usage.error(format!(
                "{name} holds a URI that is none of PostgreSQL's: postgres://… and postgresql://…, with -d"
            )));
        }
    }
    Ok(())
}

/// Adds what is not there yet.
fn fill(parameters: &mut Parameters, lower: Parameters) {
    for (name, value) in lower {
        parameters.entry(name).or_insert(value);
    }
}

fn says_where(parameters: &Parameters) -> bool {
    ["host", "hostaddr", "port", "dbname"]
        .iter()
        .any(|name| parameters.contains_key(name))
}

fn from_options(args: &ConnectionArgs) -> anyhow::Result<Parameters> {
    let mut parameters = match &args.dbname {
        Some(text) if conninfo::is_conninfo(text) => conninfo::parse("--dbname", text)?,
        Some(name) if !name.is_empty() => Parameters::from([("dbname", name.clone())]),
        Some(_) | None => Parameters::new(),
    };
    let given = [
        ("host", &args.host),
        ("port", &args.port),
        ("user", &args.username),
    ];
    let given = given
        .into_iter()
        .filter_map(|(name, value)| Some((name, value.clone().filter(|value| !value.is_empty())?)));
    fill(&mut parameters, given.collect());
    Ok(parameters)
}

fn from_url(variable: &'static str) -> anyhow::Result<Parameters> {
    match environment::variable(variable)? {
        None => Ok(Parameters::new()),
        Some(text) if conninfo::is_conninfo(&text) => conninfo::parse(variable, &text),
        Some(_) => {
            Err(Fault::Usage.error(format!("{variable} is no PostgreSQL connection string")))
        }
    }
}

fn from_variables() -> anyhow::Result<Parameters> {
    let mut parameters = Parameters::new();
    for (variable, name) in VARIABLES {
        if let Some(value) = environment::variable(variable)? {
            parameters.insert(name, value);
        }
    }
    Ok(parameters)
}

/// Pairs the comma-separated lists as libpq does: one port for all hosts, or one for each.
fn hosts(
    host: Option<String>,
    hostaddr: Option<String>,
    port: Option<String>,
) -> anyhow::Result<Vec<Host>> {
    let addresses: Vec<Address> = match hostaddr.or(host) {
        None => vec![Address::UnixSocket(default_socket_directory())],
        Some(list) => list.split(',').map(address).collect(),
    };
    let ports = port.unwrap_or_default();
    let ports = ports
        .split(',')
        .map(parse_port)
        .collect::<anyhow::Result<Vec<u16>>>()?;
    if ports.len() != 1 && ports.len() != addresses.len() {
        return Err(Fault::Usage.error(format!(
            "could not match {} port numbers to {} hosts",
            ports.len(),
            addresses.len()
        )));
    }
    let ports = ports.iter().cycle();
    Ok(addresses
        .into_iter()
        .zip(ports)
        .map(|(address, port)| Host {
            address,
            port: *port,
        })
        .collect())
}

fn address(host: &str) -> Address {
    match host {
        "" => Address::UnixSocket(default_socket_directory()),
        path if path.starts_with('/') => Address::UnixSocket(path.into()),
        name => Address::Tcp(name.to_owned()),
    }
}

fn default_socket_directory() -> PathBuf {
    let [packaged, upstream] = SOCKET_DIRECTORIES.map(PathBuf::from);
    if packaged.is_dir() {
        packaged
    } else {
        upstream
    }
}

fn parse_port(text: &str) -> anyhow::Result<u16> {
    match text.trim() {
        "" => Ok(DEFAULT_PORT),
        text => text
            .parse()
            .ok()
            .filter(|port| *port != 0)
            .ok_or_else(|| invalid("port number: 1 to 65535")),
    }
}

fn tls_mode(value: Option<&str>) -> anyhow::Result<TlsMode> {
    match value {
        None | Some("prefer") => Ok(TlsMode::Prefer),
        Some("disable") => Ok(TlsMode::Disable),
        Some("require") => Ok(TlsMode::Require),
        Some(_) => Err(Fault::Usage
            .error("unsupported sslmode: this version knows disable, prefer and require")),
    }
}

/// Whole seconds; zero and negative numbers mean no limit, as in libpq.
fn connect_timeout(value: Option<String>) -> anyhow::Result<Option<Duration>> {
    let Some(value) = value else {
        return Ok(Some(DEFAULT_CONNECT_TIMEOUT));
    };
    let seconds: i32 = value
        .trim()
        .parse()
        .map_err(|_| invalid("connect_timeout: whole seconds"))?;
    Ok(u64::try_from(seconds)
        .ok()
        .filter(|seconds| *seconds > 0)
        .map(Duration::from_secs))
}

/// The value is not quoted: behind an unescaped `/` or `@` it may be a part of a password.
fn invalid(what: &str) -> anyhow::Error {
    Fault::Usage.error(format!("invalid {what}"))
}

fn operating_system_user() -> anyhow::Result<String> {
    let user = User::from_uid(getuid()).context("looking up the operating system user")?;
    user.map(|user| user.name)
        .ok_or_else(|| Fault::Usage.error(format!("user ID {} has no name; give -U", getuid())))
}
