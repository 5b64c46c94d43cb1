//! One host: whether to encrypt, as sslmode says, and the start of a session.

use std::io;
use std::os::fd::OwnedFd;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio_postgres::config::{SslMode, SslNegotiation};
use tokio_postgres::{Client, Config};

use super::Link;
use super::hosts::{Address, Host};
use super::refusal::Refusal;
use super::settings::Settings;
use super::socket::Socket;
use super::tls::LazyTls;
use super::tls_settings::TlsMode;

/// How one try goes about encryption.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Encryption {
    None,
    /// Encrypted if the server offers it.
    IfOffered,
    Required,
}

/// The tries in libpq's order; a later one is made only where an earlier one failed in a way that it may mend.
fn tries(mode: TlsMode, address: &Address) -> &'static [Encryption] {
    // TLS is never used on a Unix socket, whatever sslmode says (PostgreSQL documentation, 34.1.2).
    if let Address::UnixSocket(_) = address {
        return &[Encryption::None];
    }
    match mode {
        TlsMode::Disable => &[Encryption::None],
        TlsMode::Allow => &[Encryption::None, Encryption::Required],
        TlsMode::Prefer => &[Encryption::IfOffered, Encryption::None],
        TlsMode::Require | TlsMode::VerifyCa | TlsMode::VerifyFull => &[Encryption::Required],
    }
}

/// An open connection.
pub struct Opened {
    pub client: Client,
    pub link: Link,
    /// The socket that both use.
    pub socket: OwnedFd,
}

/// Opens a session on `host`; the refusal is the last try's, with the reasons of all.
pub async fn open(
    settings: &Settings,
    host: &Host,
    application_name: &str,
) -> Result<Opened, Refusal> {
    let mut refused = Refusal::default();
    let mut reasons = Vec::new();
    for encryption in tries(settings.tls.mode, &host.address) {
        match open_once(settings, host, *encryption, application_name).await {
            Ok(opened) => return Ok(opened),
            Err(refusal) => refused = refusal,
        }
        // One that the server refuses either way in the same words is said once.
        if !reasons.contains(&refused.reason) {
            reasons.push(refused.reason.clone());
        }
        if !refused.depends_on_encryption {
            break;
        }
    }
    refused.reason = reasons.join("; ");
    Err(refused)
}

async fn open_once(
    settings: &Settings,
    host: &Host,
    encryption: Encryption,
    application_name: &str,
) -> Result<Opened, Refusal> {
    let connected = Socket::connect(host, settings.tcp).await;
    let mut socket = connected.map_err(|error| Refusal::of_unreachable(host, &error))?;
    if let Some(required) = &settings.required_peer {
        socket.check_peer(required)?;
    }
    let encrypted = match encryption {
        Encryption::None => false,
        _ if settings.tls.direct => true,
        Encryption::IfOffered => offers_tls(&mut socket).await?,
        Encryption::Required if offers_tls(&mut socket).await? => true,
        Encryption::Required => {
            return Err(Refusal::of(
                "the server does not support TLS, but it is required",
            ));
        }
    };
    // Not as a part of the handshake: without OpenSSL nothing is to be sent in the clear that would have been encrypted.
    #[cfg(openssl_when_needed)]
    if encrypted {
        super::openssl_library::load()?;
    }
    let mut config = Config::new();
    config
        .user(&settings.user)
        .dbname(&settings.database)
        .application_name(application_name)
        .channel_binding(settings.tls.channel_binding);
    // The negotiation is over: what follows is the handshake itself, or the session.
    if encrypted {
        config
            .ssl_mode(SslMode::Require)
            .ssl_negotiation(SslNegotiation::Direct);
    } else {
        config.ssl_mode(SslMode::Disable);
    }
    let known = || host.password.clone().map(String::into_bytes);
    if let Some(password) = settings.prompt.typed(&settings.user).or_else(known) {
        config.password(password);
    }
    if let Some(options) = &settings.server_options {
        config.options(options);
    }
    let tls = LazyTls {
        settings: &settings.tls,
        host: &host.name,
    };
    let kept = socket.duplicate()?;
    let opened = config.connect_raw(socket, tls).await;
    let (client, link) = opened.map_err(|error| Refusal::from_session(&error))?;
    Ok(Opened {
        client,
        link,
        socket: kept,
    })
}

/// Asks for TLS (PostgreSQL documentation, 55.2.11 "SSL Session Encryption").
async fn offers_tls(socket: &mut Socket) -> io::Result<bool> {
    const SSL_REQUEST: [u8; 8] = [0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x2f];
    socket.write_all(&SSL_REQUEST).await?;
    // One byte and no more: what comes behind it unencrypted would be a third party's.
    match socket.read_u8().await? {
        b'S' => Ok(true),
        b'N' => Ok(false),
        _ => Err(io::Error::other(
            "the server answers as no PostgreSQL server does",
        )),
    }
}
