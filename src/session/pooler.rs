//! Is this session's backend its own, or does a pooler share it out?

use std::time::Duration;

use tokio::time::timeout;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Error, SimpleQueryMessage};

use super::Session;
use crate::connection::{self, Settings};
use crate::exit::Fault;

/// How often to look: a pooler that is busy with others may happen to give the same backend again.
const ROUNDS: usize = 5;
/// How long a statement may wait for a backend before that tells as much as its answer would.
const PATIENCE: Duration = Duration::from_secs(2);

/// What was found behind the pooler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pooling {
    /// Statements of this session go to different backends, or two sessions to one.
    Shared,
    /// The second session was given no backend in time: each may keep its own, and all be in use.
    Unknown,
    /// This backend answered each time, and nobody else.
    Fixed(i32),
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
) -> anyhow::Result<Pooling> {
    let mut second = session.open_another(settings, application_name).await?;
    let found = compare(&session.client, &second.client).await;
    match found {
        Ok(pooling) => {
            second.close().await;
            Ok(pooling)
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
    let keeps_single_statements = async {
        let session = Session::open(settings, application_name).await?;
        let lets_others_through = backend_pid(&session.client, "").await?.is_some();
        let transaction = backend_pid(&session.client, "BEGIN; ").await;
        if transaction.is_ok() {
            session.client.simple_query("ROLLBACK").await?;
        }
        session.close().await;
        let refuses_again = transaction.is_err_and(|error| is_refusal(&error));
        anyhow::Ok(lets_others_through && refuses_again)
    };
    match keeps_single_statements.await {
        Ok(true) => Fault::Unfit.error(format!(
            "a pooler keeps a backend for one statement only, so that it cannot hold a lock ({said}): {}",
            connection::way_around_pooler(settings)
        )),
        Ok(false) | Err(_) => Fault::CannotConnect.error(said),
    }
}

async fn compare(first: &Client, second: &Client) -> Result<Pooling, Error> {
    let mut fixed = 0;
    for _ in 0..ROUNDS {
        let Some(before) = backend_pid(first, "").await? else {
            return Ok(Pooling::Shared);
        };
        let other = match backend_pid(second, "BEGIN; ").await {
            Err(error) if is_refusal(&error) => return Ok(Pooling::Shared),
            other => other?,
        };
        let Some(other) = other else {
            return Ok(Pooling::Unknown);
        };
        // A backend that was lent out need not be waited for.
        let is_kept = other != before && backend_pid(first, "").await? == Some(before);
        second.simple_query("ROLLBACK").await?;
        if !is_kept {
            return Ok(Pooling::Shared);
        }
        fixed = before;
    }
    Ok(Pooling::Fixed(fixed))
}

/// Whether a pooler refused a transaction; it refuses all sorts of things with this.
fn is_refusal(error: &Error) -> bool {
    error.code() == Some(&SqlState::PROTOCOL_VIOLATION)
}

/// The backend that answers; `None` when none does in time.
async fn backend_pid(client: &Client, begin: &str) -> Result<Option<i32>, Error> {
    let sql = format!("{begin}SELECT pg_catalog.pg_backend_pid() AS pid");
    let Ok(answer) = timeout(PATIENCE, client.simple_query(&sql)).await else {
        return Ok(None);
    };
    let messages = answer?;
    Ok(messages.iter().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => row.get("pid")?.parse().ok(),
        _ => None,
    }))
}
