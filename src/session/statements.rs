//! The SQL to take and free a lock, and what the server answers.

use tokio_postgres::{SimpleQueryMessage, SimpleQueryRow};

use super::{Request, Server, Wait};
use crate::identity::Stage;
use crate::key::{LockKey, Mode};

/// What one try answered.
pub enum Answer {
    Granted,
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

impl Answer {
    pub fn read(messages: Vec<SimpleQueryMessage>) -> anyhow::Result<Self> {
        let rows = rows(messages);
        let text = |name| column(&rows, name).unwrap_or_default();
        Ok(match text("answer") {
            "elsewhere" => Self::Elsewhere,
            "granted" => Self::Granted,
            "busy" => Self::Busy,
            "waiting" => {
                let since = text("at").parse()?;
                Self::Waiting { since }
            }
            "standby" => Self::Standby,
            _ => Self::LookAlike,
        })
    }
}

/// The calls for one lock in SQL, and the catalog's own entry of the first.
struct LockCalls {
    try_lock: String,
    unlock: String,
    oid: u32,
    source: &'static str,
}

impl LockCalls {
    /// The object IDs are fixed (PostgreSQL's `pg_proc.dat`), and each function's source is its C name.
    fn of(request: &Request) -> Self {
        let (arguments, [exclusive, shared]) = match request.identity.lock.key {
            LockKey::Bigint(key) => (
                format!("'{key}'::pg_catalog.int8"),
                [
                    (2882, "pg_try_advisory_lock_int8"),
                    (2883, "pg_try_advisory_lock_shared_int8"),
                ],
            ),
            LockKey::Pair(first, second) => (
                format!("'{first}'::pg_catalog.int4, '{second}'::pg_catalog.int4"),
                [
                    (2888, "pg_try_advisory_lock_int4"),
                    (2889, "pg_try_advisory_lock_shared_int4"),
                ],
            ),
        };
        let ((oid, source), suffix) = match request.mode {
            Mode::Exclusive => (exclusive, ""),
            Mode::Shared => (shared, "_shared"),
        };
        Self {
            try_lock: format!("pg_catalog.pg_try_advisory_lock{suffix}({arguments})"),
            unlock: format!("pg_catalog.pg_advisory_unlock{suffix}({arguments})"),
            oid,
            source,
        }
    }
}

/// One message: shield the session, then take the lock unless that would be unsafe, prove it, and tell
/// everybody whether this session now holds or waits.
///
/// Everything is qualified: a `search_path` may put other functions in front.
///
/// The proof takes the lock a second time and gives that one back: only a server that counts this session's
/// locks can do both. The definition in the catalog shows whether the function is the built-in one; asked by
/// function call it costs a tenth of what a query of `pg_proc` does in a fresh session.
pub fn try_lock(request: &Request, wait: Wait, backend_pid: i32, server: &Server) -> String {
    let waiting_since = match wait {
        Wait::Since(since) => Some(since),
        Wait::Never | Wait::NotYet | Wait::Begins => None,
    };
    let comment = request.identity.comment(waiting_since, server.is_utf8);
    let shield = shield(server, backend_pid);
    let is_expected = is_backend(backend_pid);
    let LockCalls {
        try_lock,
        unlock,
        oid,
        source,
    } = LockCalls::of(request);
    let name = |stage| request.identity.application_name(stage);
    let tell = |stage, answer: &str| {
        let name = name(stage);
        format!(
            "CASE WHEN pg_catalog.set_config('application_name', '{name}', false) IS NOT NULL \
             THEN '{answer}' END"
        )
    };
    // A session is opened as a holder, so only one that waits has to say so, and take it back when granted.
    let (busy, granted, at) = match wait {
        Wait::Never | Wait::NotYet => ("'busy'".to_owned(), "'granted'".to_owned(), ""),
        Wait::Begins => (
            tell(Stage::Waiting(request.mode), "waiting"),
            "'granted'".to_owned(),
            ", (pg_catalog.date_part('epoch', pg_catalog.statement_timestamp()) \
             OPERATOR(pg_catalog.*) 1000000::pg_catalog.float8)::pg_catalog.int8 AS at",
        ),
        Wait::Since(_) => ("'busy'".to_owned(), tell(Stage::Holding, "granted"), ""),
    };
    format!(
        "{comment}{READ_COMMITTED}; {shield}; \
         SELECT CASE WHEN NOT {is_expected} THEN 'elsewhere' WHEN pg_catalog.pg_is_in_recovery() THEN 'standby' \
             WHEN NOT pg_catalog.textlike(pg_catalog.pg_get_functiondef({oid}), \
                 '%LANGUAGE internal%$function${source}$function$%') THEN 'foreign' \
             WHEN NOT {try_lock} THEN {busy} \
             WHEN NOT {try_lock} THEN 'unproven' \
             WHEN {unlock} THEN {granted} \
             ELSE 'unproven' END AS answer{at}"
    )
}

/// The unlock, by that backend only, which answers `t` in the column `unlocked` when this session held the lock.
pub fn unlock(request: &Request, backend_pid: i32) -> String {
    let unlock = LockCalls::of(request).unlock;
    let is_expected = is_backend(backend_pid);
    format!("SELECT CASE WHEN {is_expected} THEN {unlock} END AS unlocked")
}

/// Whether this backend executes the statement: behind a pooler it may be that of somebody else.
fn is_backend(pid: i32) -> String {
    format!("pg_catalog.int4eq(pg_catalog.pg_backend_pid(), {pid})")
}

/// In front of everything: in a transaction that is serializable and deferrable by default, any statement may
/// wait for those of others.
const READ_COMMITTED: &str = "SET TRANSACTION ISOLATION LEVEL READ COMMITTED";

/// `statement` behind what keeps a role's defaults from it, in a message that leaves nothing behind.
pub fn shielded(statement: &str) -> String {
    format!(
        "{READ_COMMITTED}; \
         SELECT pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true), \
             pg_catalog.set_config('statement_timeout', '0', true); \
         {statement}"
    )
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

/// What a role's or a database's defaults must not do to the session, by the major version that brought it.
const SHIELDED: [(&str, &str, u32); 5] = [
    ("statement_timeout", "0", 0),
    ("lock_timeout", "0", 0),
    ("idle_session_timeout", "0", 14),
    ("transaction_timeout", "0", 17),
    ("default_transaction_isolation", "read committed", 0),
];

/// The message that sets them for the whole session, if it is this backend's.
pub fn shield_alone(server: &Server, backend_pid: i32) -> String {
    format!("{READ_COMMITTED}; {}", shield(server, backend_pid))
}

fn shield(server: &Server, backend_pid: i32) -> String {
    let settings: Vec<String> = SHIELDED
        .iter()
        .filter(|(_, _, since)| server.major_version >= *since)
        .map(|(setting, value, _)| format!("pg_catalog.set_config('{setting}', '{value}', false)"))
        .collect();
    let settings = settings.join(", ");
    format!("SELECT {settings} WHERE {}", is_backend(backend_pid))
}
