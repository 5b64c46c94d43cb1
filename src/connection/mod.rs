//! From what libpq calls conninfo to an open connection.

mod announced;
mod aside;
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
#[cfg(openssl_when_needed)]
#[expect(
    unsafe_code,
    reason = "assembler, and functions that are found by name"
)]
mod openssl_library;
mod password_file;
mod places;
mod prompt;
mod refusal;
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

use tokio_postgres::Connection;

pub use self::announced::announced;
pub use self::described::{LinkView, Transport, Verified};
use self::hosts::Host;
pub use self::negotiation::Opened;
pub use self::places::{Place, group};
pub use self::prompt::Prompt;
use self::refusal::{Refusal, Want};
pub use self::refusal::{describe, is_full};
pub use self::settings::Settings;
use self::settings::TargetSession;
use self::socket::Socket;
pub use self::tcp_settings::TcpSettings;
use self::tls::TlsStream;
pub use self::ways_around::way_around_pooler;
use crate::exit::Fault;

/// The half of a connection that does the work; it ends when the connection does.
pub type Link = Connection<Socket, TlsStream>;

/// An open connection, and which of the settings' hosts it is to.
pub struct Connected {
    pub opened: Opened,
    pub host: usize,
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
        .is_err_and(|refusal| refusal.wants == Some(Want::Password))
        && settings.prompt.ask(&settings.user).await?
    {
        connected = connect_as_wanted(settings, application_name).await;
    }
    connected.map_err(|refusal| {
        let fault = if refusal.wants == Some(Want::Room) {
            Fault::Full
        } else {
            Fault::CannotConnect
        };
        fault.error(format!("cannot connect to {}", refusal.reason))
    })
}

async fn connect_as_wanted(
    settings: &Settings,
    application_name: &str,
) -> Result<Connected, Refusal> {
    let first = connect_to_any(settings, settings.target, application_name).await;
    match (first, settings.target) {
        (Err(refusal), TargetSession::PreferStandby) if refusal.wants != Some(Want::Password) => {
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
