//! What is wrong with a server's certificate, in words.

use std::net::IpAddr;

use openssl::nid::Nid;
use openssl::x509::{GeneralNameRef, X509Ref, X509StoreContextRef};
use openssl_sys as ffi;

use crate::text::printable;

/// Names of a certificate that are told; some are for hundreds.
const NAMES_TOLD: usize = 4;

/// Why the certificate that `chain` has come to is not in order; one line.
pub fn complaint(chain: &X509StoreContextRef, host: &str) -> String {
    let verdict = chain.error();
    let untrusted = format!(
        "the server's certificate is not trusted: {}",
        verdict.error_string()
    );
    let Some(certificate) = chain.current_cert() else {
        return untrusted;
    };
    match verdict.as_raw() {
        ffi::X509_V_ERR_HOSTNAME_MISMATCH | ffi::X509_V_ERR_IP_ADDRESS_MISMATCH => format!(
            "the server's certificate is for {}, not for host \"{host}\"",
            names(certificate)
        ),
        ffi::X509_V_ERR_CERT_HAS_EXPIRED => format!(
            "the certificate of {} expired on {}",
            common_name(certificate),
            certificate.not_after()
        ),
        ffi::X509_V_ERR_CERT_NOT_YET_VALID => format!(
            "the certificate of {} is not valid before {}",
            common_name(certificate),
            certificate.not_before()
        ),
        ffi::X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT
        | ffi::X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY
        | ffi::X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE
        | ffi::X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT
        | ffi::X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN => {
            format!("{untrusted} (sslrootcert names the file of the authority)")
        }
        _ => untrusted,
    }
}

/// Whether a certificate that was refused for an address names it in letters: as a DNS name, or, where no address is among its names, as
/// its common name. libpq takes both (PostgreSQL documentation, 34.19.1).
pub fn spells_address(chain: &X509StoreContextRef, address: &str) -> bool {
    if chain.error().as_raw() != ffi::X509_V_ERR_IP_ADDRESS_MISMATCH {
        return false;
    }
    let Some(certificate) = chain.current_cert() else {
        return false;
    };
    let alternatives = certificate.subject_alt_names();
    let names = || alternatives.iter().flatten();
    let is_address = |name: &[u8]| name.eq_ignore_ascii_case(address.as_bytes());
    let is_malformed = |name: &GeneralNameRef| {
        name.dnsname().is_some_and(|name| name.contains('\0'))
            || name
                .ipaddress()
                .is_some_and(|bytes| !matches!(bytes.len(), 4 | 16))
    };
    if names().any(is_malformed) {
        return false;
    }
    if names().any(|name| {
        name.dnsname()
            .is_some_and(|name| is_address(name.as_bytes()))
    }) {
        return true;
    }
    let has_address = names().any(|name| name.ipaddress().is_some());
    let subject = certificate.subject_name();
    let common = subject.entries_by_nid(Nid::COMMONNAME).next();
    !has_address && common.is_some_and(|name| is_address(name.data().as_slice()))
}

/// What the certificate is for: its alternative names, else its common name, as in RFC 6125, 6.4.4.
fn names(certificate: &X509Ref) -> String {
    let alternatives = certificate.subject_alt_names();
    let mut names: Vec<String> = alternatives.iter().flatten().filter_map(name).collect();
    if names.is_empty() {
        return common_name(certificate);
    }
    let untold = names.len().saturating_sub(NAMES_TOLD);
    names.truncate(NAMES_TOLD);
    let told = names.join(", ");
    match untold {
        0 => told,
        untold => format!("{told} and {untold} more"),
    }
}

/// A DNS name or an address, in quotes; other kinds do not name hosts.
fn name(name: &GeneralNameRef) -> Option<String> {
    let address = |bytes: &[u8]| match bytes.len() {
        4 => <[u8; 4]>::try_from(bytes).ok().map(IpAddr::from),
        _ => <[u8; 16]>::try_from(bytes).ok().map(IpAddr::from),
    };
    match name.dnsname() {
        Some(name) => Some(quoted(name)),
        None => Some(quoted(&address(name.ipaddress()?)?.to_string())),
    }
}

fn common_name(certificate: &X509Ref) -> String {
    let subject = certificate.subject_name();
    let name = subject.entries_by_nid(Nid::COMMONNAME).next();
    name.and_then(|name| name.data().to_string().ok())
        .map_or_else(|| "nobody".to_owned(), |name| quoted(&name))
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", printable(name))
}
