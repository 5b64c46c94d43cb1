//! Why there is no session, in words without a secret, and what to do next.

use std::error::Error;
use std::io;

use openssl::error::ErrorStack;
use tokio_postgres::error::SqlState;

use super::hosts::Host;
use super::tls::HandshakeError;
use super::tls_errors;
use crate::text;

/// Why one host gave no session, and what to do next.
#[derive(Debug, Default)]
pub struct Refusal {
    pub reason: String,
    /// No other host is to be tried.
    pub is_final: bool,
    /// Another choice about encryption may succeed on the same host.
    pub depends_on_encryption: bool,
    pub wants: Option<Want>,
}

/// What would have made the difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Want {
    Password,
    /// Others use all connections or memory that there are.
    Room,
}

impl Refusal {
    pub fn of(reason: &str) -> Self {
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
            wants: Some(Want::Password),
            ..Self::default()
        }
    }

    /// There is no socket.
    pub fn of_unreachable(host: &Host, error: &io::Error) -> Self {
        let why = text::of_io(error);
        if host.is_given {
            return Self::of(&why);
        }
        Self::of(&format!(
            "{why} (no host is given: -h, -d, PGLOCK_URL or PGHOST)"
        ))
    }

    /// The server, or TLS, refused once the socket was connected.
    pub fn from_session(error: &tokio_postgres::Error) -> Self {
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
            wants: code.filter(|code| is_full(code)).map(|_| Want::Room),
        }
    }
}

impl From<io::Error> for Refusal {
    fn from(error: io::Error) -> Self {
        Self::of(&text::of_io(&error))
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
    match cause.downcast_ref::<io::Error>() {
        Some(error) => text::of_io(error),
        None => cause.to_string(),
    }
}

fn innermost<'a>(error: &'a (dyn Error + 'static)) -> &'a (dyn Error + 'static) {
    error.source().map_or(error, innermost)
}

/// Too many connections (53300), or no shared memory for another lock (53200).
pub fn is_full(code: &SqlState) -> bool {
    *code == SqlState::TOO_MANY_CONNECTIONS || *code == SqlState::OUT_OF_MEMORY
}
