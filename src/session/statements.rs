//! The SQL to take, prove and free a lock, and what the server answers.

mod keepalive;
mod lock_calls;
mod pg_locks;
pub mod queue;
mod shield;

use tokio_postgres::{SimpleQueryMessage, SimpleQueryRow};

pub use self::keepalive::{Keepalive, keepalive, read_keepalive};
use self::lock_calls::LockCalls;
#[cfg(test)]
pub use self::pg_locks::halves;
pub use self::pg_locks::is_key;
pub use self::queue::{Joined, Look};
use self::shield::{Extent, READ_COMMITTED, set_config, shield};
pub use self::shield::{shield_alone, shielded, shielded_settings};
use super::{Request, Scope, Server, Wait};
use crate::identity::{Since, Stage};

/// What one try answered.
pub enum Answer {
    Granted(Grant),
    Busy,
    /// The wait has begun, at this time in microseconds since 1970 on the server's clock.
    Waiting {
        since: i64,
    },
    /// Another backend answers than the one expected: a pooler stands between. Nothing was set or taken.
    Elsewhere,
    /// Nothing was taken.
    Standby,
    /// The functions are not the built-in ones (nothing was taken), or they granted a lock and then did not
    /// know that this session owns it.
    LookAlike,
}

/// Which backend holds the lock, and since when.
#[derive(Clone, Debug)]
pub struct Grant {
    pub backend_pid: i32,
    taken: Moment,
}

/// A time on the server's clock.
#[derive(Clone, Debug)]
struct Moment {
    /// As PostgreSQL sends it: microseconds since 2000, in hexadecimal digits.
    digits: String,
    /// Microseconds since 1970.
    since_1970: i64,
}

/// From 1970 to 2000, PostgreSQL's epoch.
const EPOCH: i64 = 946_684_800_000_000;

impl Answer {
    pub fn read(messages: Vec<SimpleQueryMessage>) -> anyhow::Result<Self> {
        let rows = rows(messages);
        let text = |name| column(&rows, name).unwrap_or_default();
        Ok(match text("answer") {
            "elsewhere" => Self::Elsewhere,
            "granted" => Self::Granted(Grant {
                backend_pid: text("backend").parse()?,
                taken: Moment::read(text("at"))?,
            }),
            "busy" => Self::Busy,
            "waiting" => Self::Waiting {
                since: Moment::read(text("at"))?.since_1970,
            },
            "standby" => Self::Standby,
            _ => Self::LookAlike,
        })
    }
}

impl Moment {
    fn read(digits: &str) -> anyhow::Result<Self> {
        Ok(Self {
            digits: digits.to_owned(),
            since_1970: i64::from_str_radix(digits, 16)?.saturating_add(EPOCH),
        })
    }
}

/// The SQL for a time as [`Moment`] reads it: not subject to any setting, and cheap in a fresh session.
fn moment(function: &str) -> String {
    format!("pg_catalog.encode(pg_catalog.timestamptz_send(pg_catalog.{function}()), 'hex')")
}

/// One message: shield the session, then take the lock unless that would be unsafe, prove it, and tell
/// everybody whether this session now holds or waits.
///
/// Everything is qualified: a `search_path` may put other functions in front.
pub fn try_lock(request: &Request, wait: Wait, backend_pid: i32, server: &Server) -> String {
    let since = match wait {
        Wait::InLine(line) => Some(Since::Waiting(line.since)),
        Wait::Unannounced | Wait::NotYet | Wait::Begins => None,
    };
    let comment = request.identity.comment(since, server.is_utf8);
    let take = match request.scope {
        Scope::Session => try_in_session(request, wait, backend_pid, server),
        Scope::Transaction => try_in_transaction(request, server),
    };
    format!("{comment}{take}")
}

/// The proof takes the lock a second time, and then gives one back and takes it again, as each heartbeat will:
/// only a server that counts this session's locks can do all of that.
fn try_in_session(request: &Request, wait: Wait, backend_pid: i32, server: &Server) -> String {
    let shield = shield(server, Some(request), Extent::Session);
    let is_expected = is_backend(backend_pid);
    let calls = LockCalls::of(request);
    let is_genuine = calls.are_genuine();
    let LockCalls {
        try_lock, unlock, ..
    } = calls;
    let tell = |stage, answer: &str| {
        let set = set_application_name(request, stage, Extent::Session);
        format!("CASE WHEN {set} IS NOT NULL THEN '{answer}' END")
    };
    // A session is opened as a holder, so only one that waits has to say so, and take it back when granted.
    let (busy, granted) = match wait {
        Wait::Unannounced | Wait::NotYet => ("'busy'".to_owned(), "'granted'".to_owned()),
        Wait::Begins => (
            tell(Stage::Waiting(request.mode), "waiting"),
            "'granted'".to_owned(),
        ),
        Wait::InLine(line) => {
            let (leave, granted) = (queue::leave(request, line), tell(Stage::Holding, "granted"));
            (
                "'busy'".to_owned(),
                // Sent again after it was cancelled, it may have left already.
                format!("CASE WHEN {leave} THEN {granted} ELSE {granted} END"),
            )
        }
    };
    // Whoever will wait anyway does not go before those who do.
    let is_passed_by = match wait {
        Wait::NotYet | Wait::Begins => format!("WHEN {} THEN {busy} ", queue::is_awaited(request)),
        Wait::Unannounced | Wait::InLine(_) => String::new(),
    };
    let at = moment("statement_timestamp");
    format!(
        "{READ_COMMITTED}; {shield} WHERE {is_expected}; \
         SELECT CASE WHEN NOT {is_expected} THEN 'elsewhere' WHEN {IS_STANDBY} THEN 'standby' \
             WHEN NOT {is_genuine} THEN 'foreign' \
             {is_passed_by}WHEN NOT {try_lock} THEN {busy} \
             WHEN NOT {try_lock} THEN 'unproven' \
             WHEN NOT {unlock} THEN 'unproven' \
             WHEN {try_lock} THEN {granted} \
             ELSE 'unproven' END AS answer, {BACKEND} AS backend, {at} AS at"
    )
}

/// The transaction stays open when the lock was granted; whichever backend it is on is the session's until it
/// ends. What is set lasts as long, so a pooler hands nothing of it on.
///
/// Locks of one backend do not exclude one another, and a pooler's may have one that another of its clients took for
/// the session. Only the list of all locks shows that, whose cost grows with it.
fn try_in_transaction(request: &Request, server: &Server) -> String {
    let shield = shield(server, Some(request), Extent::Transaction);
    let name = set_application_name(request, Stage::Holding, Extent::Transaction);
    let calls = LockCalls::of(request);
    let is_genuine = calls.are_genuine();
    let try_lock = calls.try_lock;
    let at = moment("now");
    let path = set_config("search_path", "pg_catalog, pg_temp", Extent::Transaction);
    let is_key = is_key(request.identity.lock.key);
    format!(
        "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL statement_timeout = 0; SELECT {path}; {shield}, {name}; \
         SELECT CASE WHEN {IS_STANDBY} THEN 'standby' \
             WHEN NOT {is_genuine} THEN 'foreign' \
             WHEN EXISTS (SELECT FROM pg_locks l WHERE l.pid = pg_backend_pid() AND l.locktype = 'advisory' \
                 AND {is_key}) THEN 'busy' \
             WHEN NOT {try_lock} THEN 'busy' \
             ELSE 'granted' END AS answer, {BACKEND} AS backend, {at} AS at"
    )
}

/// What a heartbeat or a release answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proof {
    Held,
    /// The same, of a lock that is free now and that others wait for.
    Awaited,
    /// Another backend answers than the one that holds the lock.
    Elsewhere,
    /// The session or transaction no longer owns it.
    Gone,
}

impl Proof {
    pub fn read(messages: Vec<SimpleQueryMessage>) -> Self {
        match column(&rows(messages), "answer") {
            Some("held") => Self::Held,
            Some("awaited") => Self::Awaited,
            Some("elsewhere") => Self::Elsewhere,
            _ => Self::Gone,
        }
    }
}

/// Proves that the lock is still held, at a cost that does not depend on how many others there are.
///
/// A session gives one of its two locks back and takes it again: whoever is queued for the key gets nothing,
/// for it never has less than one. In a transaction nothing but its end frees the lock, and its time of start
/// tells it from any other on the same backend.
pub fn heartbeat(request: &Request, grant: &Grant, server: &Server) -> String {
    let held = Since::Held(grant.taken.since_1970);
    let comment = request.identity.comment(Some(held), server.is_utf8);
    let proof = match request.scope {
        Scope::Session => {
            let LockCalls {
                try_lock, unlock, ..
            } = LockCalls::of(request);
            proof(grant, &format!("CASE WHEN {unlock} THEN {try_lock} END"))
        }
        Scope::Transaction => proof(grant, &is_same_transaction(grant)),
    };
    format!("{comment}{proof}")
}

/// Frees the lock, in that backend only; answers as a heartbeat does whether it was held until now, and whether
/// others wait for it.
pub fn release(request: &Request, grant: &Grant) -> String {
    let (was_held, end) = match request.scope {
        Scope::Session => {
            let unlock = LockCalls::of(request).unlock;
            // All of its locks: a try that was cancelled may have left one more.
            let unlock_all = "pg_catalog.pg_advisory_unlock_all() IS NOT NULL";
            (format!("({unlock} AND {unlock_all})"), "")
        }
        Scope::Transaction => (is_same_transaction(grant), "; COMMIT"),
    };
    let is_expected = is_backend(grant.backend_pid);
    let is_awaited = queue::is_awaited(request);
    format!(
        "SELECT CASE WHEN NOT {is_expected} THEN 'elsewhere' WHEN NOT {was_held} THEN 'gone' \
             WHEN {is_awaited} THEN 'awaited' ELSE 'held' END AS answer{end}"
    )
}

/// Frees all locks of the session, which has none yet that was not taken by a message that was cancelled.
pub const FORGET: &str = "SELECT pg_catalog.pg_advisory_unlock_all()";

/// Ends the transaction in which the lock was not obtained.
pub const GIVE_UP: &str = "ROLLBACK";

fn proof(grant: &Grant, is_held: &str) -> String {
    let is_expected = is_backend(grant.backend_pid);
    format!(
        "SELECT CASE WHEN NOT {is_expected} THEN 'elsewhere' WHEN {is_held} THEN 'held' END AS answer"
    )
}

fn is_same_transaction(grant: &Grant) -> String {
    let (now, digits) = (moment("now"), &grant.taken.digits);
    format!("pg_catalog.texteq({now}, '{digits}')")
}

const IS_STANDBY: &str = "pg_catalog.pg_is_in_recovery()";
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
fn column<'a>(rows: &'a [SimpleQueryRow], name: &str) -> Option<&'a str> {
    rows.first()?.try_get(name).ok().flatten()
}

fn set_application_name(request: &Request, stage: Stage, extent: Extent) -> String {
    let name = request.identity.application_name(stage);
    set_config("application_name", &name, extent)
}
