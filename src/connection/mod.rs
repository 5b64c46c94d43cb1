//! From what libpq calls conninfo to an open connection.

mod announced;
mod certificate;
mod conninfo;
mod described;
#[cfg(test)]
mod fuzz;
mod given;
mod home;
mod hosts;
mod keywords;
mod negotiation;
mod password_file;
mod places;
mod prompt;
mod service_file;
mod settings;
mod socket;
mod sources;
mod target;
mod tcp_settings;
mod template;
mod terminal;
mod tls;
mod tls_errors;
mod tls_session;
mod tls_settings;
mod ways_around;

use std::error::Error;
use std::fmt;
use std::os::fd::OwnedFd;

use openssl::error::ErrorStack;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Connection};

pub use self::announced::announced;
pub use self::described::{LinkView, Transport, Verified};
use self::hosts::{Address, Host};
pub use self::places::{Place, group};
pub use self::prompt::Prompt;
pub use self::settings::Settings;
use self::settings::TargetSession;
use self::socket::Socket;
pub use self::tcp_settings::TcpSettings;
use self::tls::{HandshakeError, TlsStream};
pub use self::ways_around::way_around_pooler;
use crate::exit::Fault;

/// The half of a connection that does the work; it ends when the connection does.
pub type Link = Connection<Socket, TlsStream>;

/// An open connection, and which of the settings' hosts it is to.
pub struct Connected {
    pub opened: Opened,
    pub host: usize,
}

/// An open connection.
pub struct Opened {
    pub client: Client,
    pub link: Link,
    /// The socket that both use.
    pub socket: OwnedFd,
}

/// Connects to the first server that answers, authenticates, and is what was asked for.
///
/// The next host is tried only when one cannot be reached, is starting up, or is not the wanted kind, as libpq
/// does: a refused password is final. One that is wanted and not known is asked for on the terminal, as psql
/// does, and then all hosts are tried once more. Errors are [`Fault::CannotConnect`].
pub async fn connect(settings: &Settings, application_name: &str) -> anyhow::Result<Connected> {
    settings.prompt.ask_if_forced(&settings.user).await?;
    let mut connected = connect_as_wanted(settings, application_name).await;
    if connected
        .as_ref()
        .is_err_and(|refusal| refusal.is_for_want_of_a_password)
        && settings.prompt.ask(&settings.user).await?
    {
        connected = connect_as_wanted(settings, application_name).await;
    }
    connected.map_err(|refusal| {
        Fault::CannotConnect.error(format!("cannot connect to {}", refusal.reason))
    })
}

async fn connect_as_wanted(
    settings: &Settings,
    application_name: &str,
) -> Result<Connected, Refusal> {
    let first = connect_to_any(settings, settings.target, application_name).await;
    match (first, settings.target) {
        (Err(refusal), TargetSession::PreferStandby) if !refusal.is_for_want_of_a_password => {
            connect_to_any(settings, TargetSession::Any, application_name).await
        }
        (connected, _) => connected,
    }
}

/// The refusal is the last host's, with the reasons of all.
async fn connect_to_any(
    settings: &Settings,
    wanted: TargetSession,
    application_name: &str,
) -> Result<Connected, Refusal> {
    let mut refused = Refusal::default();
    let mut reasons = Vec::new();
    for (at, host) in settings.hosts.iter().enumerate() {
        match connect_within(settings, host, wanted, application_name).await {
            Ok(opened) => return Ok(Connected { opened, host: at }),
            Err(refusal) => refused = refusal,
        }
        reasons.push(format!("{host}: {}", refused.reason));
        if refused.is_final {
            break;
        }
    }
    refused.reason = reasons.join("; ");
    Err(refused)
}

/// Connects to the one of the settings' hosts that answered before.
pub async fn connect_to(
    settings: &Settings,
    host: usize,
    application_name: &str,
) -> anyhow::Result<Connected> {
    let server = &settings.hosts[host];
    match connect_within(settings, server, TargetSession::Any, application_name).await {
        Ok(opened) => Ok(Connected { opened, host }),
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
) -> Result<Opened, Refusal> {
    let attempt = async {
        let opened = negotiation::open(settings, host, application_name).await?;
        target::check(wanted, opened).await
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
    is_for_want_of_a_password: bool,
}

impl Refusal {
    fn of(reason: &str) -> Self {
        Self {
            reason: reason.to_owned(),
            ..Self::default()
        }
    }

    /// Final, as for libpq.
    fn for_want_of_a_password() -> Self {
        Self {
            reason: "the server wants a password: give it in PGPASSWORD or in the password file (~/.pgpass)"
                .to_owned(),
            is_final: true,
            depends_on_encryption: false,
            is_for_want_of_a_password: true,
        }
    }

    /// The server, or TLS, refused once the socket was connected.
    fn from_session(error: &tokio_postgres::Error) -> Self {
        // Said by the client library alone, which has no code for it.
        if error.code().is_none() && innermost(error).to_string() == "password missing" {
            return Self::for_want_of_a_password();
        }
        let code = error.code();
        Self {
            reason: describe(error),
            is_final: code.is_some_and(|code| *code != SqlState::CANNOT_CONNECT_NOW),
            // pg_hba.conf may want the other kind of connection; a failed handshake may be avoided, but nothing that
            // comes after it: a server that refuses the client's certificate then must not be sent anything in the clear.
            depends_on_encryption: match code {
                Some(code) => *code == SqlState::INVALID_AUTHORIZATION_SPECIFICATION,
                None => error
                    .source()
                    .is_some_and(<dyn Error>::is::<HandshakeError>),
            },
            is_for_want_of_a_password: false,
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
    if let Some(said) = error.as_db_error() {
        return said.message().to_owned();
    }
    let cause = innermost(error);
    if let Some(stack) = cause.downcast_ref::<ErrorStack>() {
        return tls_errors::describe(stack);
    }
    match cause.downcast_ref::<std::io::Error>() {
        Some(error) => describe_io(error),
        None => cause.to_string(),
    }
}

/// The standard library adds "(os error 111)" to a plain description.
fn describe_io(error: &std::io::Error) -> String {
    match error.raw_os_error() {
        Some(number) => nix::errno::Errno::from_raw(number).desc().to_lowercase(),
        None => error.to_string(),
    }
}

fn innermost<'a>(error: &'a (dyn Error + 'static)) -> &'a (dyn Error + 'static) {
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
