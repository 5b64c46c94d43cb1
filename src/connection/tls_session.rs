//! An OpenSSL session that verifies and sends what libpq's would (PostgreSQL's fe-secure-openssl.c).

use std::error::Error;
use std::fmt::Display;
use std::fs;
use std::net::IpAddr;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use openssl::error::ErrorStack;
use openssl::pkey::{PKey, Private};
use openssl::ssl::{
    Ssl, SslContext, SslContextBuilder, SslFiletype, SslMethod, SslMode, SslOptions, SslRef,
    SslVerifyMode, SslVersion,
};
use openssl::x509::store::X509Lookup;
use openssl::x509::verify::{X509CheckFlags, X509VerifyFlags};
use openssl::x509::{X509, X509VerifyResult};

use super::certificate;
use super::tls_settings::{ClientCertificate, Protocol, Revoked, Roots, TlsMode, TlsSettings};
use crate::text;

/// Where an OpenSSL that was built into pglock looks for what its configuration names. It would look in the folder that it was built in,
/// which somebody else may have by now.
#[cfg(feature = "vendored-openssl")]
const MODULES: &str = "/etc/pglock/ssl/modules";

/// What can go wrong: a file, or OpenSSL.
pub type BoxError = Box<dyn Error + Send + Sync>;

/// The protocol's registered name (RFC 7301).
pub const ALPN: &[u8] = b"postgresql";

/// Filled in by a handshake that ends at the server's certificate.
pub type Complaint = Arc<OnceLock<String>>;

/// A session for one handshake, with the verification that sslmode asks for (PostgreSQL documentation, 34.19.1).
pub fn new(settings: &TlsSettings, host: &str, complaint: &Complaint) -> Result<Ssl, BoxError> {
    // Not by the crate's SslConnector: it parses the system's certificates, wanted or not, which takes longer than all else.
    #[cfg(feature = "vendored-openssl")]
    openssl::provider::Provider::set_default_search_path(None, MODULES)?;
    let mut context = SslContext::builder(SslMethod::tls_client())?;
    context.set_options(SslOptions::NO_COMPRESSION);
    context.set_mode(SslMode::ACCEPT_MOVING_WRITE_BUFFER);
    if let Some(lowest) = settings.lowest {
        context.set_min_proto_version(Some(version(lowest)))?;
    }
    if let Some(highest) = settings.highest {
        context.set_max_proto_version(Some(version(highest)))?;
    }
    if trust(&mut context, settings)? {
        verify(&mut context, host, complaint);
    }
    if let Some(files) = &settings.client_certificate {
        identify(&mut context, files)?;
    }
    if settings.direct {
        context.set_alpn_protos(b"\x0apostgresql")?;
    }
    // OpenSSL takes it for any of a domain's hosts, and libpq for none.
    if settings.mode == TlsMode::VerifyFull && host.starts_with('.') {
        return Err(format!("no certificate is for host \"{}\"", text::printable(host)).into());
    }
    let mut session = Ssl::new(&context.build())?;
    name_server(&mut session, settings, host)?;
    Ok(session)
}

fn version(protocol: Protocol) -> SslVersion {
    match protocol {
        Protocol::Tls10 => SslVersion::TLS1,
        Protocol::Tls11 => SslVersion::TLS1_1,
        Protocol::Tls12 => SslVersion::TLS1_2,
        Protocol::Tls13 => SslVersion::TLS1_3,
    }
}

/// Reads whose signature the server's certificate needs; false if any certificate will do.
fn trust(context: &mut SslContextBuilder, settings: &TlsSettings) -> Result<bool, BoxError> {
    match &settings.roots {
        Roots::System => add_system_roots(context)?,
        Roots::File(file) if file.exists() => {
            add_roots(context, file)?;
            heed_revocations(context, &settings.revoked)?;
        }
        Roots::File(file) if settings.mode >= TlsMode::VerifyCa => {
            return Err(format!(
                "root certificate file \"{}\" does not exist: give it, or sslrootcert=system, or change sslmode",
                file.display()
            )
            .into());
        }
        Roots::File(_) => return Ok(false),
    }
    Ok(true)
}

/// Those of `SSL_CERT_FILE` and `SSL_CERT_DIR`, else of where the distribution has them.
fn add_system_roots(context: &mut SslContextBuilder) -> Result<(), ErrorStack> {
    context.set_default_verify_paths()?;
    // The distribution's OpenSSL knows it; one that was built into pglock was built for none.
    #[cfg(feature = "vendored-openssl")]
    {
        let is_set = |variable| std::env::var_os(variable).is_some();
        if !is_set(openssl_probe::ENV_CERT_FILE) && !is_set(openssl_probe::ENV_CERT_DIR) {
            let found = openssl_probe::probe();
            if let Some(bundle) = &found.cert_file {
                context.load_verify_locations(Some(bundle), None)?;
            }
            for directory in &found.cert_dir {
                context.load_verify_locations(None, Some(directory))?;
            }
        }
    }
    Ok(())
}

fn add_roots(context: &mut SslContextBuilder, file: &Path) -> Result<(), BoxError> {
    let could_not = |why: &dyn Display| {
        format!(
            "could not read root certificate file \"{}\": {why}",
            file.display()
        )
    };
    let pem = fs::read(file).map_err(|error| could_not(&text::of_io(&error)))?;
    let certificates = X509::stack_from_pem(&pem).unwrap_or_default();
    if certificates.is_empty() {
        return Err(could_not(&"no certificate found").into());
    }
    for certificate in certificates {
        context.cert_store_mut().add_cert(certificate)?;
    }
    Ok(())
}

/// Once there is a list, every certificate of the chain must be on none, and its issuer must have one.
fn heed_revocations(context: &mut SslContextBuilder, revoked: &Revoked) -> Result<(), BoxError> {
    let store = context.cert_store_mut();
    let mut has_list = false;
    if let Some(file) = revoked.file.as_deref().and_then(Path::to_str) {
        // A file that stalls is to do so here: OpenSSL's descriptor of it would be passed on to a command that another host's lock
        // has started meanwhile. A pipe can be read only once.
        if Path::new(file).is_file() {
            let _ = fs::read(file);
        }
        let lookup = store.add_lookup(X509Lookup::file())?;
        has_list |= lookup.load_crl_file(file, SslFiletype::PEM).is_ok();
    }
    if let Some(directory) = revoked.directory.as_deref().and_then(Path::to_str) {
        let lookup = store.add_lookup(X509Lookup::hash_dir())?;
        has_list |= lookup.add_dir(directory, SslFiletype::PEM).is_ok();
    }
    if has_list {
        store.set_flags(X509VerifyFlags::CRL_CHECK | X509VerifyFlags::CRL_CHECK_ALL)?;
    }
    Ok(())
}

/// Has the handshake fail at a certificate that is not in order, and say why.
fn verify(context: &mut SslContextBuilder, host: &str, complaint: &Complaint) {
    let host = host.to_owned();
    let complaint = Arc::clone(complaint);
    context.set_verify_callback(SslVerifyMode::PEER, move |is_in_order, chain| {
        if is_in_order {
            return true;
        }
        if certificate::spells_address(chain, &host) {
            chain.set_error(X509VerifyResult::OK);
            return true;
        }
        complaint.get_or_init(|| certificate::complaint(chain, &host));
        false
    });
}

/// Has the client's certificate, and those between it and its authority, sent to a server that asks for it.
fn identify(context: &mut SslContextBuilder, files: &ClientCertificate) -> Result<(), BoxError> {
    let could_not = |why: &dyn Display| {
        format!(
            "could not read certificate file \"{}\": {why}",
            files.certificate.display()
        )
    };
    let pem = fs::read(&files.certificate).map_err(|error| could_not(&text::of_io(&error)))?;
    let mut chain = X509::stack_from_pem(&pem).unwrap_or_default().into_iter();
    let own = chain.next();
    context.set_certificate(&*own.ok_or_else(|| could_not(&"no certificate found"))?)?;
    for certificate in chain {
        context.add_extra_chain_cert(certificate)?;
    }
    let key = private_key(files).map_err(|why| {
        format!(
            "could not load private key file \"{}\": {why}",
            files.key.display()
        )
    })?;
    let fits = context.set_private_key(&key);
    Ok(fits.map_err(|_| {
        format!(
            "private key file \"{}\" does not belong to certificate file \"{}\"",
            files.key.display(),
            files.certificate.display()
        )
    })?)
}

/// The key, in any of OpenSSL's PEM forms.
fn private_key(files: &ClientCertificate) -> Result<PKey<Private>, String> {
    check_permissions(&files.key)?;
    let pem = fs::read(&files.key).map_err(|error| text::of_io(&error))?;
    // With a password, even an empty one, OpenSSL does not ask for it on the terminal.
    let password = files.key_password.as_deref().unwrap_or_default();
    PKey::private_key_from_pem_passphrase(&pem, password.as_bytes())
        .map_err(|_| "no PEM key, or encrypted with another sslpassword".to_owned())
}

/// libpq's rule: the user's own key is for the user alone; root's may be read by a group.
fn check_permissions(key: &Path) -> Result<(), String> {
    let metadata = fs::metadata(key).map_err(|error| text::of_io(&error))?;
    let allowed = if metadata.uid() == 0 { 0o640 } else { 0o600 };
    if !metadata.is_file() {
        return Err("it is not a regular file".to_owned());
    }
    if metadata.mode() & 0o777 & !allowed & 0o077 != 0 {
        return Err("it has group or world access; permissions must be u=rw (0600) or less, or u=rw,g=r (0640) or less if owned by root".to_owned());
    }
    Ok(())
}

/// Tells the server which name it was called by, and itself which one the certificate must bear.
fn name_server(session: &mut SslRef, settings: &TlsSettings, host: &str) -> Result<(), ErrorStack> {
    let address = host.parse::<IpAddr>().ok();
    if settings.mode == TlsMode::VerifyFull {
        let expected = session.param_mut();
        expected.set_hostflags(X509CheckFlags::NO_PARTIAL_WILDCARDS);
        match address {
            Some(address) => expected.set_ip(address)?,
            None => expected.set_host(host)?,
        }
    }
    // An address is not a name (RFC 6066, 3), not even with an interface.
    if settings.server_name_indication && address.is_none() && !host.contains(':') {
        session.set_hostname(host)?;
    }
    Ok(())
}
