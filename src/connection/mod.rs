//! From what libpq calls conninfo to an open connection.

mod conninfo;
mod settings;
mod socket;
mod tls;

use std::fmt;
use std::time::Duration;

use postgres_native_tls::TlsStream;
use tokio_postgres::config::SslMode;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Config, Connection};

pub use self::settings::Settings;
use self::settings::{Address, Host, TlsMode};
use self::socket::Socket;
use self::tls::LazyTls;
use crate::exit::Fault;

/// The half of a connection that does the work; it ends when the connection does.
pub type Link = Connection<Socket, TlsStream<Socket>>;

/// Connects to the first server that answers and authenticates.
///
/// The next host is tried only when one cannot be reached or is starting up, as libpq does: a refused
/// password is final. Errors are [`Fault::CannotConnect`].
pub async fn connect(
    settings: &Settings,
    application_name: &str,
) -> anyhow::Result<(Client, Link)> {
    let mut reasons = Vec::new();
    for host in &settings.hosts {
        match connect_within(settings, host, application_name).await {
            Ok(connected) => return Ok(connected),
            Err(refusal) => {
                reasons.push(format!("{host}: {}", refusal.reason));
                if refusal.is_final {
                    break;
                }
            }
        }
    }
    Err(Fault::CannotConnect.error(format!("cannot connect to {}", reasons.join("; "))))
}

/// Why one host gave no session, and whether that ends the search.
struct Refusal {
    reason: String,
    is_final: bool,
}

async fn connect_within(
    settings: &Settings,
    host: &Host,
    application_name: &str,
) -> Result<(Client, Link), Refusal> {
    let attempt = connect_to(settings, host, application_name);
    let Some(limit) = settings.connect_timeout else {
        return attempt.await;
    };
    let timed_out = || Refusal {
        reason: format!("no answer within {}", seconds(limit)),
        is_final: false,
    };
    let attempt = tokio::time::timeout(limit, attempt).await;
    attempt.unwrap_or_else(|_| Err(timed_out()))
}

fn seconds(limit: Duration) -> String {
    format!("{} s", limit.as_secs())
}

async fn connect_to(
    settings: &Settings,
    host: &Host,
    application_name: &str,
) -> Result<(Client, Link), Refusal> {
    let socket = Socket::connect(host).await.map_err(|error| Refusal {
        reason: describe_io(&error),
        is_final: false,
    })?;
    let mut config = Config::new();
    config
        .user(&settings.user)
        .dbname(&settings.database)
        .application_name(application_name)
        .ssl_mode(ssl_mode(settings.tls, &host.address));
    if let Some(password) = &settings.password {
        config.password(password);
    }
    if let Some(options) = &settings.server_options {
        config.options(options);
    }
    let tls = LazyTls {
        host: host.address.to_string(),
    };
    config
        .connect_raw(socket, tls)
        .await
        .map_err(|error| Refusal {
            reason: describe(&error),
            is_final: error
                .code()
                .is_some_and(|code| *code != SqlState::CANNOT_CONNECT_NOW),
        })
}

/// TLS is never used on a Unix socket, whatever sslmode says (PostgreSQL documentation, 34.1.2).
fn ssl_mode(mode: TlsMode, address: &Address) -> SslMode {
    match (address, mode) {
        (Address::UnixSocket(_), _) | (_, TlsMode::Disable) => SslMode::Disable,
        (Address::Tcp(_), TlsMode::Prefer) => SslMode::Prefer,
        (Address::Tcp(_), TlsMode::Require) => SslMode::Require,
    }
}

/// What the server said, or what failed on the way to it; one line without a secret.
pub fn describe(error: &tokio_postgres::Error) -> String {
    match error.as_db_error() {
        Some(said) => said.message().to_owned(),
        None => innermost(error).to_string(),
    }
}

/// The standard library adds "(os error 111)" to a plain description.
fn describe_io(error: &std::io::Error) -> String {
    match error.raw_os_error() {
        Some(number) => nix::errno::Errno::from_raw(number).desc().to_lowercase(),
        None => error.to_string(),
    }
}

fn innermost<'a>(
    error: &'a (dyn std::error::Error + 'static),
) -> &'a (dyn std::error::Error + 'static) {
    error.source().map_or(error, innermost)
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
        write!(f, "{} port {}", self.address, self.port)
    }
}
