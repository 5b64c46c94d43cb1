//! From what libpq calls conninfo to an open connection.

mod announced;
mod conninfo;
mod described;
mod home;
mod hosts;
mod keywords;
mod negotiation;
mod password_file;
mod service_file;
mod settings;
mod socket;
mod sources;
mod target;
mod tls;
mod tls_settings;
mod ways_around;

use std::fmt;

use postgres_native_tls::TlsStream;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Connection};

pub use self::announced::announced;
pub use self::described::{LinkView, Transport, Verified};
use self::hosts::{Address, Host};
use self::settings::TargetSession;
pub use self::settings::{Settings, TcpSettings};
use self::socket::Socket;
pub use self::ways_around::way_around_pooler;
use crate::exit::Fault;

/// The half of a connection that does the work; it ends when the connection does.
pub type Link = Connection<Socket, TlsStream<Socket>>;

/// An open connection.
pub struct Connected {
    pub client: Client,
    pub link: Link,
    /// Which of the settings' hosts answered.
    pub host: usize,
}

/// Connects to the first server that answers, authenticates, and is what was asked for.
///
/// The next host is tried only when one cannot be reached, is starting up, or is not the wanted kind, as libpq
/// does: a refused password is final. Errors are [`Fault::CannotConnect`].
pub async fn connect(settings: &Settings, application_name: &str) -> anyhow::Result<Connected> {
    let first = connect_to_any(settings, settings.target, application_name).await;
    match (first, settings.target) {
        (Err(_), TargetSession::PreferStandby) => {
            connect_to_any(settings, TargetSession::Any, application_name).await
        }
        (connected, _) => connected,
    }
}

async fn connect_to_any(
    settings: &Settings,
    wanted: TargetSession,
    application_name: &str,
) -> anyhow::Result<Connected> {
    let mut reasons = Vec::new();
    for (at, host) in settings.hosts.iter().enumerate() {
        match connect_within(settings, host, wanted, application_name).await {
            Ok((client, link)) => {
                return Ok(Connected {
                    client,
                    link,
                    host: at,
                });
            }
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

/// Connects to the one of the settings' hosts that answered before.
pub async fn connect_to(
    settings: &Settings,
    host: usize,
    application_name: &str,
) -> anyhow::Result<Connected> {
    let server = &settings.hosts[host];
    match connect_within(settings, server, TargetSession::Any, application_name).await {
        Ok((client, link)) => Ok(Connected { client, link, host }),
        Err(refusal) => {
            Err(Fault::CannotConnect
                .error(format!("cannot connect to {server}: {}", refusal.reason)))
        }
    }
}

async fn connect_within(
    settings: &Settings,
    host: &Host,
    wanted: TargetSession,
    application_name: &str,
) -> Result<(Client, Link), Refusal> {
    let attempt = async {
        let (client, link) = negotiation::open(settings, host, application_name).await?;
        target::check(wanted, client, link).await
    };
    let Some(limit) = settings.connect_timeout else {
        return attempt.await;
    };
    let timed_out = || Refusal::of(&format!("no answer within {} s", limit.as_secs()));
    let attempt = tokio::time::timeout(limit, attempt).await;
    attempt.unwrap_or_else(|_| Err(timed_out()))
}

/// Why one host gave no session, and what to do next.
#[derive(Debug, Default)]
struct Refusal {
    reason: String,
    /// No other host is to be tried.
    is_final: bool,
    /// Another choice about encryption may succeed on the same host.
    depends_on_encryption: bool,
}

impl Refusal {
    fn of(reason: &str) -> Self {
        Self {
            reason: reason.to_owned(),
            ..Self::default()
        }
    }

    /// The server, or TLS, refused once the socket was connected.
    fn from_session(error: &tokio_postgres::Error, encrypted: bool) -> Self {
        let code = error.code();
        Self {
            reason: describe(error),
            is_final: code.is_some_and(|code| *code != SqlState::CANNOT_CONNECT_NOW),
            // pg_hba.conf may want the other kind of connection; a failed handshake may be avoided.
            depends_on_encryption: match code {
                Some(code) => *code == SqlState::INVALID_AUTHORIZATION_SPECIFICATION,
                None => encrypted,
            },
        }
    }
}

impl From<std::io::Error> for Refusal {
    fn from(error: std::io::Error) -> Self {
        Self::of(&describe_io(&error))
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
        write!(f, "{} port {}", self.name, self.port)
    }
}
