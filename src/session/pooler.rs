//! Is this session's backend its own, or does a pooler share it out?

use std::time::Duration;

use serde::Serialize;
use tokio::time::timeout;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Error, SimpleQueryMessage};

use super::Session;
use crate::connection::{self, Settings};
use crate::exit::Fault;

/// How often to look: a pooler that is busy with others may happen to give the same backend again.
const ROUNDS: usize = 5;
/// What goes before a statement, so that it waits for nobody's transactions.
const ALONE: &str = "SET TRANSACTION ISOLATION LEVEL READ COMMITTED";
const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED";
/// How long a statement may wait for a backend before that tells as much as its answer would.
const PATIENCE: Duration = Duration::from_secs(2);

/// When a pooler takes a session's backend away again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Pooling {
    /// Never: the backend that was announced is the one that answers.
    None,
    Session,
    Transaction,
    Statement,
    Unknown,
}

/// What was found behind the pooler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backends {
    /// Statements of this session go to different backends, or two sessions to one.
    Shared,
    /// The same, and none is kept for a transaction.
    SharedByStatement,
    /// The second session was given no backend in time: each may keep its own, and all be in use.
    Unknown,
    /// This backend answered each time, and nobody else.
    Fixed(i32),
}

impl From<Backends> for Pooling {
    fn from(backends: Backends) -> Self {
        match backends {
            Backends::Shared => Self::Transaction,
            Backends::SharedByStatement => Self::Statement,
            Backends::Unknown => Self::Unknown,
            Backends::Fixed(_) => Self::Session,
        }
    }
}

/// When this session's backend is taken away, asked anew unless it was found out before.
pub async fn pooling(
    session: &mut Session,
    settings: &Settings,
    application_name: &str,
) -> anyhow::Result<Pooling> {
    if session.is_pooled {
        return Ok(Pooling::Session);
    }
    let rows = session.query("SELECT pg_backend_pid() AS pid").await?;
    let answering = rows.first().and_then(|row| row.try_get("pid").ok()?);
    if answering == Some(session.backend_pid.to_string().as_str()) {
        return Ok(Pooling::None);
    }
    examine(session, settings, application_name)
        .await
        .map(Pooling::from)
}

impl Session {
    /// Makes sure that a pooler keeps to one backend, and expects that one from now on.
    ///
    /// Errors: [`Fault::Unfit`] when it does not, or no longer does, with the ways out.
    pub async fn accept_pooler(
        &mut self,
        settings: &Settings,
        application_name: &str,
    ) -> anyhow::Result<()> {
        let backends = if self.is_pooled {
            Backends::Shared
        } else {
            examine(self, settings, application_name).await?
        };
        match backends {
            Backends::Shared | Backends::SharedByStatement => Err(Fault::Unfit.error(format!(
                "a pooler gives the statements of this session to different backends, so that it cannot hold a lock: {}, or use --scope transaction",
                connection::way_around_pooler(settings)
            ))),
            Backends::Unknown => Err(Fault::Unfit.error(format!(
                "a pooler stands between and has no second backend free, which would show that this session keeps its own: {}, or use --scope transaction",
                connection::way_around_pooler(settings)
            ))),
            Backends::Fixed(backend_pid) => {
                self.backend_pid = backend_pid;
                self.is_pooled = true;
                Ok(())
            }
        }
    }
}

/// Looks whether a second session, inside a transaction, is given the backend of the first.
///
/// Transaction pooling gives a backend back after each transaction: it is then lent to the second session, and
/// the first is given another or none. Statement pooling refuses transactions (SQLSTATE 08P01). Neither can
/// hold a session-level lock. Nothing is set and nothing is taken.
pub async fn examine(
    session: &Session,
    settings: &Settings,
    application_name: &str,
) -> anyhow::Result<Backends> {
    let mut second = session.open_another(settings, application_name).await?;
    let found = compare(&session.client, &second.client).await;
    match found {
        Ok(backends) => {
            second.close().await;
            let is_sure = backends != Backends::SharedByStatement
                || refuses_transactions(settings, application_name).await?;
            if is_sure {
                return Ok(backends);
            }
            Err(Fault::CannotConnect.error("the pooler had no backend for a transaction"))
        }
        Err(error) => Err(second.explain(error).await),
    }
}

/// Why a statement that opens a transaction was refused with `said`: a pooler of single statements lets others
/// through, and refuses the next transaction as well. One that had no backend for a moment is no such pooler.
pub async fn explain_refusal(
    settings: &Settings,
    application_name: &str,
    said: &str,
) -> anyhow::Error {
    match refuses_transactions(settings, application_name).await {
        Ok(true) => Fault::Unfit.error(format!(
            "a pooler keeps a backend for one statement only, so that it cannot hold a lock ({said}): {}",
            connection::way_around_pooler(settings)
        )),
        Ok(false) | Err(_) => Fault::CannotConnect.error(said),
    }
}

/// Whether single statements pass, and another transaction is refused as well.
async fn refuses_transactions(settings: &Settings, application_name: &str) -> anyhow::Result<bool> {
    let session = Session::open(settings, application_name).await?;
    let lets_others_through = backend_pid(&session.client, ALONE).await?.is_some();
    let transaction = backend_pid(&session.client, BEGIN).await;
    if transaction.is_ok() {
        session.client.simple_query("ROLLBACK").await?;
    }
    session.close().await;
    let refuses_again = transaction.is_err_and(|error| is_refusal(&error));
    Ok(lets_others_through && refuses_again)
}

/// `protocol_violation`, the only SQLSTATE that `PgBouncer` knows.
fn is_refusal(error: &Error) -> bool {
    error.code() == Some(&SqlState::PROTOCOL_VIOLATION)
}

async fn compare(first: &Client, second: &Client) -> Result<Backends, Error> {
    let mut fixed = 0;
    for _ in 0..ROUNDS {
        let Some(before) = backend_pid(first, ALONE).await? else {
            return Ok(Backends::Shared);
        };
        let other = match backend_pid(second, BEGIN).await {
            Err(error) if is_refusal(&error) => {
                return Ok(Backends::SharedByStatement);
            }
            other => other?,
        };
        let Some(other) = other else {
            return Ok(Backends::Unknown);
        };
        // A backend that was lent out need not be waited for.
        let is_kept = other != before && backend_pid(first, ALONE).await? == Some(before);
        second.simple_query("ROLLBACK").await?;
        if !is_kept {
            return Ok(Backends::Shared);
        }
        fixed = before;
    }
    Ok(Backends::Fixed(fixed))
}

/// The backend that answers; `None` when none does in time.
async fn backend_pid(client: &Client, begin: &str) -> Result<Option<i32>, Error> {
    let sql = format!("{begin}; SELECT pg_catalog.pg_backend_pid() AS pid");
    let Ok(answer) = timeout(PATIENCE, client.simple_query(&sql)).await else {
        return Ok(None);
    };
    let messages = answer?;
    Ok(messages.iter().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => row.get("pid")?.parse().ok(),
        _ => None,
    }))
}
