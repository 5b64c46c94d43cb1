//! What `ssl*` parameters ask for (PostgreSQL documentation, 34.19).

use std::path::PathBuf;

use tokio_postgres::config::ChannelBinding;

use super::given::Given;
use super::home;
use crate::exit::Fault;

/// How a connection over TCP is to be encrypted; a Unix socket never is.
#[derive(Clone)]
pub struct TlsSettings {
    pub mode: TlsMode,
    pub direct: bool,
    pub roots: Roots,
    pub revoked: Revoked,
    pub client_certificate: Option<ClientCertificate>,
    pub server_name_indication: bool,
    pub lowest: Option<Protocol>,
    pub highest: Option<Protocol>,
    pub channel_binding: ChannelBinding,
}

/// `sslmode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TlsMode {
    Disable,
    Allow,
    Prefer,
    Require,
    VerifyCa,
    VerifyFull,
}

/// A version of TLS; the older ones are refused by most builds of OpenSSL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Protocol {
    Tls10,
    Tls11,
    Tls12,
    Tls13,
}

/// Whose signature a server's certificate needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Roots {
    /// A file that exists is used in every mode; the verifying modes cannot do without.
    File(PathBuf),
    /// `sslrootcert=system`.
    System,
}

/// Where lists of revoked certificates are; one that is not there revokes nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Revoked {
    pub file: Option<PathBuf>,
    /// Prepared by `openssl rehash`.
    pub directory: Option<PathBuf>,
}

/// The files of a certificate that the server may ask for.
#[derive(Clone)]
pub struct ClientCertificate {
    pub certificate: PathBuf,
    pub key: PathBuf,
    pub key_password: Option<String>,
}

impl TlsSettings {
    pub fn resolve(given: &mut Given) -> anyhow::Result<Self> {
        let roots_given = given.text("sslrootcert");
        let system = roots_given.as_deref() == Some("system");
        let mode = mode(given, system)?;
        let direct = given.choice(
            "sslnegotiation",
            &[("postgres", false), ("direct", true)],
            false,
        )?;
        if direct && mode < TlsMode::Require {
            return Err(Fault::Usage.error("a weak sslmode may not be used with sslnegotiation=direct (use require, verify-ca or verify-full)"));
        }
        let without_certificate = given.text("sslcertmode").as_deref() == Some("disable");
        let client_certificate = client_certificate(given);
        let lowest = protocol(given, "ssl_min_protocol_version", Some(Protocol::Tls12))?;
        let highest = protocol(given, "ssl_max_protocol_version", None)?;
        if lowest
            .zip(highest)
            .is_some_and(|(lowest, highest)| lowest > highest)
        {
            return Err(
                Fault::Usage.error("ssl_min_protocol_version is above ssl_max_protocol_version")
            );
        }
        Ok(Self {
            mode,
            direct,
            roots: roots(roots_given),
            revoked: revoked(given),
            client_certificate: client_certificate.filter(|_| !without_certificate),
            server_name_indication: given.choice("sslsni", &[("0", false), ("1", true)], true)?,
            lowest,
            highest,
            channel_binding: given.choice(
                "channel_binding",
                &[
                    ("disable", ChannelBinding::Disable),
                    ("prefer", ChannelBinding::Prefer),
                    ("require", ChannelBinding::Require),
                ],
                ChannelBinding::Prefer,
            )?,
        })
    }
}

/// `sslrootcert=system` implies, and allows nothing less than, verify-full.
fn mode(given: &mut Given, system: bool) -> anyhow::Result<TlsMode> {
    let required = given
        .text("requiressl")
        .is_some_and(|value| value.starts_with('1'));
    let default = match (system, required) {
        (true, _) => TlsMode::VerifyFull,
        (false, true) => TlsMode::Require,
        (false, false) => TlsMode::Prefer,
    };
    let words = [
        ("disable", TlsMode::Disable),
        ("allow", TlsMode::Allow),
        ("prefer", TlsMode::Prefer),
        ("require", TlsMode::Require),
        ("verify-ca", TlsMode::VerifyCa),
        ("verify-full", TlsMode::VerifyFull),
    ];
    let mode = given.choice("sslmode", &words, default)?;
    if system && mode != TlsMode::VerifyFull {
        return Err(Fault::Usage
            .error("a weak sslmode may not be used with sslrootcert=system (use verify-full)"));
    }
    Ok(mode)
}

fn roots(given: Option<String>) -> Roots {
    match given {
        Some(word) if word == "system" => Roots::System,
        Some(file) => Roots::File(file.into()),
        None => Roots::File(home::file(".postgresql/root.crt").unwrap_or_default()),
    }
}

fn revoked(given: &mut Given) -> Revoked {
    let [file, directory] = ["sslcrl", "sslcrldir"].map(|name| given.text(name).map(PathBuf::from));
    let by_default = || home::file(".postgresql/root.crl").filter(|_| directory.is_none());
    Revoked {
        file: file.or_else(by_default),
        directory,
    }
}

/// The files that were given, or those in the home directory; a certificate that does not exist is not sent.
fn client_certificate(given: &mut Given) -> Option<ClientCertificate> {
    let certificate = given
        .text("sslcert")
        .map(PathBuf::from)
        .or_else(|| home::file(".postgresql/postgresql.crt"))
        .filter(|file| file.try_exists().unwrap_or(true));
    let key = given
        .text("sslkey")
        .map(PathBuf::from)
        .or_else(|| home::file(".postgresql/postgresql.key"));
    Some(ClientCertificate {
        certificate: certificate?,
        key: key?,
        key_password: given.text("sslpassword"),
    })
}

fn protocol(
    given: &mut Given,
    name: &'static str,
    default: Option<Protocol>,
) -> anyhow::Result<Option<Protocol>> {
    let words = [
        ("", default),
        ("TLSv1", Some(Protocol::Tls10)),
        ("TLSv1.1", Some(Protocol::Tls11)),
        ("TLSv1.2", Some(Protocol::Tls12)),
        ("TLSv1.3", Some(Protocol::Tls13)),
    ];
    given.choice(name, &words, default)
}
