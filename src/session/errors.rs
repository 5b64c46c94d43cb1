//! What the failure of a query means.

use tokio_postgres::error::{DbError, Severity, SqlState};

use super::{Scope, Session};
use crate::connection;
use crate::exit::Fault;

impl Session {
    /// The error of a query.
    pub(super) async fn explain(&mut self, error: tokio_postgres::Error) -> anyhow::Error {
        if self.is_lost(&error) {
            let cause = self.ended_by(&error).await;
            return Fault::CannotConnect.error(format!("the connection was lost: {cause}"));
        }
        let said = connection::describe(&error);
        match error.code() {
            Some(code) if *code == SqlState::INSUFFICIENT_PRIVILEGE => {
                Fault::PermissionDenied.error(said)
            }
            Some(code)
                if *code == SqlState::UNDEFINED_FUNCTION
                    || *code == SqlState::FEATURE_NOT_SUPPORTED =>
            {
                Fault::Unfit.error(format!("this server has no advisory locks: {said}"))
            }
            Some(code) if connection::is_full(code) => Fault::Full.error(said),
            _ => anyhow::anyhow!(said),
        }
    }

    /// Whether a failed query is the end of the session: the server's last word comes before the socket closes.
    pub(super) fn is_lost(&self, error: &tokio_postgres::Error) -> bool {
        error.as_db_error().is_some_and(is_last_word) || self.client.is_closed()
    }

    /// What ended the session, once a query has failed because it did.
    pub(super) async fn ended_by(&mut self, error: &tokio_postgres::Error) -> String {
        match error.as_db_error() {
            Some(said) => said.message().to_owned(),
            None => self.ended().await,
        }
    }
}

impl Scope {
    /// Whether the error is a pooler's that lends its backends for single statements, or has none
    /// (`protocol_violation`).
    pub(super) fn is_refused_by(self, error: &tokio_postgres::Error) -> bool {
        self == Self::Transaction && error.code() == Some(&SqlState::PROTOCOL_VIOLATION)
    }
}

/// Whether the server ends the session with this: it says so in English since 9.6, and in its own language
/// always (PostgreSQL documentation, 55.8).
fn is_last_word(said: &DbError) -> bool {
    match said.parsed_severity() {
        Some(severity) => matches!(severity, Severity::Fatal | Severity::Panic),
        None => matches!(said.severity(), "FATAL" | "PANIC"),
    }
}
