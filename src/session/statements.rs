//! The SQL to take, prove and free a lock, and what the server answers.

mod asking;
mod keepalive;
mod lock_calls;
mod moment;
mod pg_locks;
mod proof;
pub mod queue;
mod shield;
mod take;
mod token;

use tokio_postgres::{SimpleQueryMessage, SimpleQueryRow};

pub use self::asking::{Asking, UNDO, attentive_heartbeat, may_end, who_asks};
pub use self::keepalive::{Keepalive, keepalive, read_keepalive};
#[cfg(test)]
pub use self::pg_locks::halves;
pub use self::pg_locks::{is_any_key, is_key};
pub use self::proof::{Proof, comment, heartbeat, release};
pub use self::queue::{Joined, Look};
pub use self::shield::{begin, shield_alone, shielded, shielded_settings};
pub use self::take::{Answer, Grant, put_back, try_lock};
pub use self::token::{EMIT, Token};

/// Frees all locks of the session, which has none yet that was not taken by a message that was cancelled.
pub const FORGET: &str = "SELECT pg_catalog.pg_advisory_unlock_all()";

/// Ends the transaction in which the lock was not obtained.
pub const GIVE_UP: &str = "ROLLBACK";

const BACKEND: &str = "pg_catalog.pg_backend_pid()";

/// Whether this backend executes the statement: behind a pooler it may be that of somebody else.
fn is_backend(pid: i32) -> String {
    format!("pg_catalog.int4eq({BACKEND}, {pid})")
}

/// The rows of the last statement of a message.
pub fn rows(messages: Vec<SimpleQueryMessage>) -> Vec<SimpleQueryRow> {
    let mut rows = Vec::new();
    for message in messages {
        match message {
            SimpleQueryMessage::RowDescription(_) => rows.clear(),
            SimpleQueryMessage::Row(row) => rows.push(row),
            _ => {}
        }
    }
    rows
}

/// The value of a column of the first row.
pub fn column<'a>(rows: &'a [SimpleQueryRow], name: &str) -> Option<&'a str> {
    rows.first()?.try_get(name).ok().flatten()
}
