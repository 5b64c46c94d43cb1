//! What OpenSSL's errors mean, in words.

use openssl::error::{Error, ErrorStack};
use openssl::ssl;
use openssl_sys as ffi;

use crate::text;

/// The number of the TLS library among OpenSSL's (openssl/err.h).
const ERR_LIB_SSL: i32 = 20;

// Reasons for an error (openssl/sslerr.h).
const SSL_R_NO_PROTOCOLS_AVAILABLE: i32 = 191;
const SSL_R_UNSUPPORTED_PROTOCOL: i32 = 258;
const SSL_R_WRONG_SSL_VERSION: i32 = 266;
const SSL_R_WRONG_VERSION_NUMBER: i32 = 267;
const SSL_R_UNEXPECTED_EOF_WHILE_READING: i32 = 294;

const NO_COMMON_VERSION: &str = "the server and pglock have no TLS version in common (ssl_min_protocol_version, ssl_max_protocol_version)";
const CLOSED: &str = "the server closed the connection";

/// Why a handshake failed; one line.
pub fn describe_handshake(error: &ssl::Error) -> String {
    match (error.ssl_error(), error.io_error()) {
        (Some(stack), _) if !is_closed(stack) => describe(stack),
        (None, Some(error)) => text::of_io(error),
        (Some(_), _) | (None, None) => format!("{CLOSED} during the TLS handshake"),
    }
}

fn is_closed(stack: &ErrorStack) -> bool {
    let first = stack.errors().first();
    first.is_some_and(|error| error.reason_code() == SSL_R_UNEXPECTED_EOF_WHILE_READING)
}

/// What the first of the errors means; one line. A server may refuse a certificate after the handshake (RFC 8446, 4.4.2.4).
pub fn describe(stack: &ErrorStack) -> String {
    let Some(error) = stack.errors().first() else {
        return "TLS failed".to_owned();
    };
    match known(error) {
        Some(words) => words.to_owned(),
        None => format!("TLS failed: {}", error.reason().unwrap_or("unknown error")),
    }
}

fn known(error: &Error) -> Option<&'static str> {
    if error.library_code() != ERR_LIB_SSL {
        return None;
    }
    match error.reason_code() {
        SSL_R_NO_PROTOCOLS_AVAILABLE | SSL_R_UNSUPPORTED_PROTOCOL | SSL_R_WRONG_SSL_VERSION => {
            Some(NO_COMMON_VERSION)
        }
        SSL_R_WRONG_VERSION_NUMBER => Some("the server does not answer in TLS"),
        SSL_R_UNEXPECTED_EOF_WHILE_READING => Some(CLOSED),
        reason => alert(reason - ffi::SSL_AD_REASON_OFFSET),
    }
}

/// What the server means by an alert (RFC 8446, 6.2).
fn alert(number: i32) -> Option<&'static str> {
    match number {
        ffi::SSL_AD_CERTIFICATE_REQUIRED => {
            Some("the server requires a client certificate (sslcert and sslkey name its files)")
        }
        ffi::SSL_AD_UNKNOWN_CA => {
            Some("the server refused the client certificate: it does not know its authority")
        }
        ffi::SSL_AD_CERTIFICATE_EXPIRED => {
            Some("the server refused the client certificate: it has expired")
        }
        ffi::SSL_AD_CERTIFICATE_REVOKED => {
            Some("the server refused the client certificate: it is revoked")
        }
        ffi::SSL_AD_BAD_CERTIFICATE
        | ffi::SSL_AD_UNSUPPORTED_CERTIFICATE
        | ffi::SSL_AD_CERTIFICATE_UNKNOWN => Some("the server refused the client certificate"),
        ffi::SSL_AD_PROTOCOL_VERSION => Some(NO_COMMON_VERSION),
        ffi::SSL_AD_HANDSHAKE_FAILURE | ffi::SSL_AD_INSUFFICIENT_SECURITY => Some(
            "the server refused the TLS handshake: no cipher in common, or it requires a client certificate",
        ),
        ffi::SSL_AD_NO_APPLICATION_PROTOCOL => {
            Some("the server does not speak PostgreSQL's protocol over TLS")
        }
        _ => None,
    }
}
