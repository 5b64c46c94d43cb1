//! Ending the session of one holder, and only that one.

use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, SimpleQueryMessage};

use super::rows::{SHIELD, is_key};
use super::view::LockView;
use crate::connection;

/// What the attempt to end a session came to.
#[derive(Debug, PartialEq, Eq)]
pub enum Termination {
    /// The signal was sent; the session may still take a moment to end.
    Sent,
    /// That session no longer holds the lock.
    AlreadyGone,
    /// The server refused; what would help.
    Denied(String),
}

/// Terminates the session of `holder` if it still holds that very lock: look-up and termination are one
/// statement, which checks database, key and form, backend and backend start again.
///
/// Privileges are not examined before: PostgreSQL decides.
pub async fn terminate(client: &Client, holder: &LockView) -> anyhow::Result<Termination> {
    let sql = format!(
        "{SHIELD}; SELECT pg_terminate_backend(h.pid) AS sent FROM ({}) h",
        holding(holder)
    );
    match client.simple_query(&sql).await {
        Ok(messages) => Ok(if last_row_has(&messages, "sent") {
            Termination::Sent
        } else {
            Termination::AlreadyGone
        }),
        Err(error) if error.code() == Some(&SqlState::INSUFFICIENT_PRIVILEGE) => {
            Ok(Termination::Denied(what_would_help(client, holder).await))
        }
        Err(error) => Err(anyhow::anyhow!(
            "terminating a session: {}",
            connection::describe(&error)
        )),
    }
}

/// Whether that session still holds that lock.
pub async fn still_holds(client: &Client, holder: &LockView) -> anyhow::Result<bool> {
    let sql = format!("{SHIELD}; SELECT true AS held FROM ({}) h", holding(holder));
    let messages = client.simple_query(&sql).await;
    let messages = messages.map_err(|error| {
        anyhow::anyhow!("looking for the lock: {}", connection::describe(&error))
    })?;
    Ok(last_row_has(&messages, "held"))
}

/// The query for the backend, as long as it holds the lock.
fn holding(holder: &LockView) -> String {
    let pid = holder.pid.unwrap_or_default();
    let start = match holder.backend_start {
        Some(start) => start.0.to_string(),
        None => "NULL".to_owned(),
    };
    format!(
        "SELECT l.pid FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid \
         WHERE l.locktype = 'advisory' AND l.granted AND {key} AND l.pid = {pid} \
         AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database()) \
         AND (extract(epoch FROM a.backend_start) * 1000000)::int8 IS NOT DISTINCT FROM {start}::int8 \
         LIMIT 1",
        key = is_key(holder.key),
    )
}

/// The first statement of the message answers a row too, without this column.
fn last_row_has(messages: &[SimpleQueryMessage], column: &str) -> bool {
    messages.iter().any(|message| match message {
        SimpleQueryMessage::Row(row) => row.try_get(column).ok().flatten() == Some("t"),
        _ => false,
    })
}

/// Who may end this session (PostgreSQL documentation, 9.28.2 "Server Signaling Functions").
async fn what_would_help(client: &Client, holder: &LockView) -> String {
    let owner = holder.user.as_deref().unwrap_or("another role");
    let pid = holder.pid.unwrap_or_default();
    let sql = format!(
        "{SHIELD}; SELECT true AS super FROM pg_stat_activity a JOIN pg_roles r ON r.oid = a.usesysid \
         WHERE a.pid = {pid} AND r.rolsuper"
    );
    let messages = client.simple_query(&sql).await.unwrap_or_default();
    if last_row_has(&messages, "super") {
        return format!(
            "backend {pid} belongs to {owner}, a superuser: only a superuser may end its session"
        );
    }
    format!(
        "backend {pid} belongs to {owner}: be a member of {owner}, or of pg_signal_backend \
         (GRANT pg_signal_backend TO your role)"
    )
}
