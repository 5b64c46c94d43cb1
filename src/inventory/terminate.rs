//! Ending the session of one holder, and only that one.

use super::view::LockView;
use crate::exit::Fault;
use crate::session::{Session, is_key};

/// What it came to that a holder was to be ended, or asked.
#[derive(Debug, PartialEq, Eq)]
pub enum Notice {
    /// It may still take a moment to let go.
    Given,
    /// That session no longer holds the lock.
    AlreadyGone,
    /// The server refuses; what would help.
    Denied(String),
    /// Somebody keeps everybody from asking.
    Prevented,
}

/// Terminates the session of `holder` if it still holds that very lock: look-up and termination are one
/// statement, which checks database, key and form, backend and backend start again.
///
/// Privileges are not examined before: PostgreSQL decides.
pub async fn terminate(session: &mut Session, holder: &LockView) -> anyhow::Result<Notice> {
    let sql = format!(
        "SELECT pg_terminate_backend(h.pid) FROM ({} LIMIT 1) h",
        holding(holder)
    );
    match session.query(&sql).await {
        Ok(rows) if rows.is_empty() => Ok(Notice::AlreadyGone),
        Ok(_) => Ok(Notice::Given),
        Err(error) if Fault::PermissionDenied.classifies(&error) => {
            Ok(Notice::Denied(what_would_help(session, holder).await?))
        }
        Err(error) => Err(error),
    }
}

/// Whether that session still holds that lock.
pub async fn still_holds(session: &mut Session, holder: &LockView) -> anyhow::Result<bool> {
    Ok(!session.query(&holding(holder)).await?.is_empty())
}

/// The query for the backend, as long as it holds the lock; a row for each mode.
pub fn holding(holder: &LockView) -> String {
    let pid = holder.pid.unwrap_or_default();
    let start = match holder.backend_start {
        Some(start) => start.0.to_string(),
        None => "NULL".to_owned(),
    };
    format!(
        "SELECT l.pid FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid \
         WHERE l.locktype = 'advisory' AND l.granted AND {key} AND l.pid = {pid} \
         AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database()) \
         AND (extract(epoch FROM a.backend_start) * 1000000)::int8 IS NOT DISTINCT FROM {start}::int8",
        key = holder.key.in_sql().map_or("false".to_owned(), is_key),
    )
}

/// Who may end this session (PostgreSQL documentation, 9.28.2 "Server Signaling Functions").
pub async fn what_would_help(session: &mut Session, holder: &LockView) -> anyhow::Result<String> {
    let owner = holder.user.as_deref().unwrap_or("another role");
    let pid = holder.pid.unwrap_or_default();
    let sql = format!(
        "SELECT FROM pg_stat_activity a JOIN pg_roles r ON r.oid = a.usesysid \
         WHERE a.pid = {pid} AND r.rolsuper"
    );
    if !session.query(&sql).await?.is_empty() {
        return Ok(format!(
            "backend {pid} belongs to {owner}, a superuser: only a superuser may end its session"
        ));
    }
    Ok(format!(
        "backend {pid} belongs to {owner}: be a member of {owner}, or of pg_signal_backend \
         (GRANT pg_signal_backend TO your role)"
    ))
}
