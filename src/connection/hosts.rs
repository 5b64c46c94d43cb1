//! Which servers to try: hosts, addresses and ports, paired as libpq pairs them.

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;

use super::given::{Given, invalid};
use super::password_file::Target;
use crate::exit::Fault;

/// One server to try.
pub struct Host {
    /// As the user gave it: for messages, and what a certificate must be for.
    pub name: String,
    /// Or else it is the one that is tried when nothing says where the server is.
    pub is_given: bool,
    pub address: Address,
    pub port: u16,
    pub password: Option<String>,
}

/// How a server is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// The directory of the server's Unix socket, or `@` and its abstract name.
    UnixSocket(PathBuf),
    /// A name or a numeric address.
    Tcp(String),
}

const DEFAULT_PORT: u16 = 5432;
/// Where Debian's and Red Hat's libpq look for the socket, and where upstream's does.
const SOCKET_DIRECTORIES: [&str; 2] = ["/var/run/postgresql", "/tmp"];

impl Host {
    pub fn is_over_tcp(&self) -> bool {
        matches!(self.address, Address::Tcp(_))
    }

    /// What a line of the password file must match.
    pub fn target<'a>(&'a self, database: &'a str, user: &'a str) -> Target<'a> {
        let host = match &self.address {
            Address::UnixSocket(directory) if *directory == default_socket_directory() => {
                "localhost"
            }
            Address::UnixSocket(_) | Address::Tcp(_) => &self.name,
        };
        Target {
            host,
            port: self.port,
            database,
            user,
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnixSocket(directory) => write!(f, "{}", directory.display()),
            Self::Tcp(name) => f.write_str(name),
        }
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} port {}", self.name, self.port)
    }
}

/// Pairs the comma-separated lists as libpq does: as many addresses as hosts, and one port for all or one for
/// each.
pub fn hosts(given: &mut Given) -> anyhow::Result<Vec<Host>> {
    let list = |text: Option<String>| {
        text.map(|text| text.split(',').map(str::to_owned).collect::<Vec<_>>())
    };
    let names = list(given.text("host"));
    let addresses = list(given.text("hostaddr"));
    let count = names.as_ref().or(addresses.as_ref()).map_or(1, Vec::len);
    if let (Some(names), Some(addresses)) = (&names, &addresses)
        && names.len() != addresses.len()
    {
        return Err(mismatch(
            names.len(),
            "host names",
            addresses.len(),
            "hostaddr values",
        ));
    }
    let ports = list(given.text("port")).unwrap_or_else(|| vec![String::new()]);
    if ports.len() != 1 && ports.len() != count {
        return Err(mismatch(ports.len(), "port numbers", count, "hosts"));
    }
    let nth = |list: &Option<Vec<String>>, at: usize| {
        list.as_ref()
            .map(|list| list[at].clone())
            .unwrap_or_default()
    };
    (0..count)
        .map(|at| {
            let (name, address) = (nth(&names, at), nth(&addresses, at));
            let is_given = !(name.is_empty() && address.is_empty());
            let address = match address.as_str() {
                "" => address_of(&name),
                numeric if is_numeric(numeric) => Address::Tcp(address),
                _ => return Err(invalid("hostaddr", "a numeric address")),
            };
            let name = if name.is_empty() {
                address.to_string()
            } else {
                name
            };
            let port = port(&ports[if ports.len() == 1 { 0 } else { at }])?;
            Ok(Host {
                name,
                is_given,
                address,
                port,
                password: None,
            })
        })
        .collect()
}

/// Whether no look-up is needed; an IPv6 address may end in `%` and an interface (RFC 4007).
fn is_numeric(address: &str) -> bool {
    let (address, _) = address.split_once('%').unwrap_or((address, ""));
    address.parse::<IpAddr>().is_ok()
}

fn mismatch(left: usize, what: &str, right: usize, others: &str) -> anyhow::Error {
    Fault::Usage.error(format!("could not match {left} {what} to {right} {others}"))
}

/// A host that begins with `/` is a directory, with `@` an abstract socket.
fn address_of(host: &str) -> Address {
    match host {
        "" => Address::UnixSocket(default_socket_directory()),
        path if path.starts_with(['/', '@']) => Address::UnixSocket(path.into()),
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

fn port(text: &str) -> anyhow::Result<u16> {
    match text.trim() {
        "" => Ok(DEFAULT_PORT),
        trimmed => trimmed
            .parse()
            .ok()
            .filter(|port| *port != 0)
            .ok_or_else(|| invalid("port number", "1 to 65535")),
    }
}
