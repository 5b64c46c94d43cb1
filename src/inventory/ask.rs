//! Asking one holder to let go, which only a pglock understands.

use std::time::Duration;

use tokio::time::sleep;

use super::terminate::{Notice, holding, what_would_help};
use super::view::LockView;
use crate::key::LockKey;
use crate::session::{Session, may_end};

/// A holder looks for a microsecond whether anybody asks; whoever keeps others from asking does so for longer.
const TRY_AGAIN: Duration = Duration::from_millis(5);
const TRIES: usize = 200;

/// Asks `holder`, if it still holds that very lock: look-up and request are one statement. The request stands until the
/// end of the transaction, which the caller has begun. Whom the holder would ignore is denied at once.
pub async fn ask(session: &mut Session, holder: &LockView) -> anyhow::Result<Notice> {
    let (holding, may_end) = (holding_as_called(holder), may_end("r", "h"));
    let request = match request(holder) {
        LockKey::Bigint(key) => key.to_string(),
        LockKey::Pair(first, second) => format!("{first}, {second}"),
    };
    let sql = format!(
        "SELECT may, CASE WHEN may THEN pg_try_advisory_xact_lock_shared({request}) END AS asked \
         FROM (SELECT {may_end} AS may FROM ({holding} LIMIT 1) held \
             JOIN pg_stat_activity a ON a.pid = held.pid JOIN pg_roles h ON h.oid = a.usesysid, \
             pg_stat_activity me JOIN pg_roles r ON r.oid = me.usesysid WHERE me.pid = pg_backend_pid()) AS found"
    );
    for _ in 0..TRIES {
        let rows = session.query(&fresh(&sql)).await?;
        let Some(row) = rows.first() else {
            return Ok(Notice::AlreadyGone);
        };
        if row.get("may") != Some("t") {
            return Ok(Notice::Denied(what_would_help(session, holder).await?));
        }
        if row.get("asked") == Some("t") {
            return Ok(Notice::Given);
        }
        sleep(TRY_AGAIN).await;
    }
    Ok(Notice::Prevented)
}

/// Whether the holder that was asked still holds the lock: not another pglock on the same backend of a pooler.
pub async fn still_holds_as_asked(
    session: &mut Session,
    holder: &LockView,
) -> anyhow::Result<bool> {
    let sql = fresh(&holding_as_called(holder));
    Ok(!session.query(&sql).await?.is_empty())
}

/// The key of the lock that the holder looks for.
fn request(holder: &LockView) -> LockKey {
    let called = holder.application_name.as_deref().unwrap_or_default();
    LockKey::release_request(called, holder.pid.unwrap_or_default())
}

/// Without this a transaction sees the same sessions all along.
fn fresh(statement: &str) -> String {
    format!("SELECT pg_stat_clear_snapshot(); {statement}")
}

/// Compared as digits: it is text of others.
fn holding_as_called(holder: &LockView) -> String {
    let called = holder.application_name.as_deref().unwrap_or_default();
    let digits = called
        .bytes()
        .fold(String::new(), |digits, byte| format!("{digits}{byte:02x}"));
    format!(
        "{} AND encode(convert_to(a.application_name, 'UTF8'), 'hex') = '{digits}'",
        holding(holder)
    )
}
