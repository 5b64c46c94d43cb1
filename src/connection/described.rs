//! How a session reaches its server, as far as this end knows.

use serde::Serialize;

use super::settings::Settings;
use super::tls_settings::{Roots, TlsMode, TlsSettings};

/// The connection from here to whatever answers there, which may be a pooler.
#[derive(Debug, Serialize)]
pub struct LinkView {
    /// As it was given: a name, an address, or the directory of the socket.
    pub host: String,
    pub port: u16,
    pub transport: Transport,
    pub encrypted: bool,
    pub sslmode: &'static str,
    /// What was verified; `None` where nothing is encrypted.
    pub certificate: Option<Verified>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Transport {
    Tcp,
    Unix,
}

/// What was found out about the certificate at the other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verified {
    Nothing,
    /// Somebody who is trusted has signed it.
    Signature,
    /// The same, and it is for this host.
    SignatureAndHost,
}

impl Settings {
    /// The connection to one of the settings' hosts.
    pub fn link(&self, host: usize, encrypted: bool) -> LinkView {
        let host = &self.hosts[host];
        LinkView {
            host: host.name.clone(),
            port: host.port,
            transport: if host.is_over_tcp() {
                Transport::Tcp
            } else {
                Transport::Unix
            },
            encrypted,
            sslmode: self.tls.mode.word(),
            certificate: encrypted.then(|| self.tls.verified()),
        }
    }
}

impl TlsSettings {
    /// A root certificate that is there is used in every mode, the name only in verify-full.
    fn verified(&self) -> Verified {
        match (&self.roots, self.mode) {
            (Roots::File(file), _) if !file.exists() => Verified::Nothing,
            (Roots::File(_) | Roots::System, TlsMode::VerifyFull) => Verified::SignatureAndHost,
            (Roots::File(_) | Roots::System, _) => Verified::Signature,
        }
    }
}

impl TlsMode {
    fn word(self) -> &'static str {
        match self {
            Self::Disable => "disable",
            Self::Allow => "allow",
            Self::Prefer => "prefer",
            Self::Require => "require",
            Self::VerifyCa => "verify-ca",
            Self::VerifyFull => "verify-full",
        }
    }
}
