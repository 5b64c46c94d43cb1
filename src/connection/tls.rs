//! TLS, set up only once the server has agreed to it.

use std::error::Error;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::pin::Pin;

use native_tls::{Certificate, Identity, TlsConnectorBuilder};
use openssl::pkey::PKey;
use postgres_native_tls::{TlsConnector, TlsStream, set_postgresql_alpn};
use tokio_postgres::tls::TlsConnect;

use super::socket::Socket;
use super::tls_settings::{ClientCertificate, Roots, TlsMode, TlsSettings};

/// Builds the TLS connector when the handshake begins: it reads files, which a server without TLS must not
/// cost.
pub struct LazyTls<'a> {
    pub settings: &'a TlsSettings,
    /// What the certificate must be for, and what is sent as server name indication (RFC 6066).
    pub host: &'a str,
}

type BoxError = Box<dyn Error + Send + Sync>;
type Handshake<'a> = dyn Future<Output = Result<TlsStream<Socket>, BoxError>> + Send + 'a;

impl<'a> TlsConnect<Socket> for LazyTls<'a> {
    type Stream = TlsStream<Socket>;
    type Error = BoxError;
    type Future = Pin<Box<Handshake<'a>>>;

    fn connect(self, socket: Socket) -> Self::Future {
        Box::pin(async move {
            let connector = connector(self.settings)?;
            Ok(TlsConnector::new(connector, self.host)
                .connect(socket)
                .await?)
        })
    }
}

/// Verification as sslmode asks (PostgreSQL documentation, 34.19.1).
fn connector(settings: &TlsSettings) -> Result<native_tls::TlsConnector, BoxError> {
    let mut builder = native_tls::TlsConnector::builder();
    builder
        .min_protocol_version(settings.lowest)
        .max_protocol_version(settings.highest)
        .use_sni(settings.server_name_indication)
        .danger_accept_invalid_hostnames(settings.mode != TlsMode::VerifyFull);
    match &settings.roots {
        Roots::System => {}
        Roots::Unverified => {
            builder
                .disable_built_in_roots(true)
                .danger_accept_invalid_certs(true);
        }
        Roots::File(file) => add_roots(&mut builder, file)?,
    }
    if let Some(files) = &settings.client_certificate {
        builder.identity(identity(files)?);
    }
    if settings.direct {
        set_postgresql_alpn(&mut builder);
    }
    Ok(builder.build()?)
}

fn add_roots(builder: &mut TlsConnectorBuilder, file: &Path) -> Result<(), BoxError> {
    let could_not = |why: &dyn std::fmt::Display| {
        format!(
            "could not read root certificate file \"{}\": {why}",
            file.display()
        )
    };
    let pem = fs::read(file).map_err(|error| could_not(&error))?;
    let certificates = Certificate::stack_from_pem(&pem).map_err(|error| could_not(&error))?;
    if certificates.is_empty() {
        return Err(could_not(&"no certificate found").into());
    }
    builder.disable_built_in_roots(true);
    for certificate in certificates {
        builder.add_root_certificate(certificate);
    }
    Ok(())
}

/// The client's certificate and key. The key may be in any of OpenSSL's PEM forms; native-tls takes PKCS #8.
fn identity(files: &ClientCertificate) -> Result<Identity, BoxError> {
    let (certificate, key) = (&files.certificate, &files.key);
    let pem = fs::read(certificate).map_err(|error| {
        format!(
            "could not read certificate file \"{}\": {error}",
            certificate.display()
        )
    })?;
    let could_not = |why: String| {
        format!(
            "could not load private key file \"{}\": {why}",
            key.display()
        )
    };
    check_permissions(key).map_err(could_not)?;
    let key_pem = fs::read(key).map_err(|error| could_not(error.to_string()))?;
    let password = files.key_password.clone().unwrap_or_default();
    let key = PKey::private_key_from_pem_passphrase(&key_pem, password.as_bytes())
        .map_err(|_| could_not("no PEM key, or encrypted with another sslpassword".to_owned()))?;
    Ok(Identity::from_pkcs8(
        &pem,
        &key.private_key_to_pem_pkcs8()?,
    )?)
}

/// libpq's rule: the user's own key is for the user alone; root's may be read by a group.
fn check_permissions(key: &Path) -> Result<(), String> {
    let metadata = fs::metadata(key).map_err(|error| error.to_string())?;
    let allowed = if metadata.uid() == 0 { 0o640 } else { 0o600 };
    if !metadata.is_file() {
        return Err("it is not a regular file".to_owned());
    }
    if metadata.mode() & 0o777 & !allowed & 0o077 != 0 {
        return Err("it has group or world access; permissions must be u=rw (0600) or less, or u=rw,g=r (0640) or less if owned by root".to_owned());
    }
    Ok(())
}
