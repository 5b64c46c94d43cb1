//! The SQL to take and free a lock, and what the server answers.

use tokio_postgres::SimpleQueryMessage;

use super::{Request, Server, Wait};
use crate::identity::Stage;
use crate::key::{LockKey, Mode};

/// What one try answered.
pub enum Answer {
    Granted {
        backend_pid: i32,
    },
    Busy {
        at: i64,
    },
    /// Nothing was taken.
    Standby,
    /// The functions are not the built-in ones (nothing was taken), or they granted a lock and then did not
    /// know that this session owns it.
    LookAlike,
}

impl Answer {
    pub fn read(messages: &[SimpleQueryMessage]) -> anyhow::Result<Self> {
        let text = |name| column(messages, name).unwrap_or_default();
        let yes = |name| text(name) == "t";
        Ok(if yes("standby") {
            Self::Standby
        } else if !yes("genuine") || yes("granted") != yes("proven") {
            Self::LookAlike
        } else if yes("granted") {
            let backend_pid = text("backend_pid").parse()?;
            Self::Granted { backend_pid }
        } else {
            let at = text("at").parse()?;
            Self::Busy { at }
        })
    }
}

/// The value of a column of the last row.
pub fn column<'a>(messages: &'a [SimpleQueryMessage], name: &str) -> Option<&'a str> {
    let row = messages.iter().rev().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => Some(row),
        _ => None,
    });
    row.and_then(|row| row.try_get(name).ok().flatten())
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
/// Everything is qualified, operators too: a `search_path` may put other functions in front.
/// The proof takes the lock a second time and gives that one back: only a server that counts this
/// session's locks can do both.
pub fn try_lock(request: &Request, server: &Server) -> String {
    let waiting_since = match request.wait {
        Wait::Since(since) => Some(since),
        Wait::Never | Wait::NotYet => None,
    };
    let comment = request.identity.comment(waiting_since, server.is_utf8);
    let shield = shield(server);
    let LockCalls {
        try_lock,
        unlock,
        oid,
        source,
    } = LockCalls::of(request);
    let tell = stage_change(request);
    format!(
        "{comment}{shield}; \
         SELECT s.backend_pid, s.standby, s.genuine, s.granted, \
             CASE WHEN s.granted THEN CASE WHEN {try_lock} THEN {unlock} END END AS proven, \
             (EXTRACT(epoch FROM pg_catalog.statement_timestamp()) OPERATOR(pg_catalog.*) 1000000)::pg_catalog.int8 AS at, \
             {tell} \
         FROM (SELECT f.*, CASE WHEN f.genuine AND NOT f.standby THEN {try_lock} END AS granted \
             FROM (SELECT pg_catalog.pg_backend_pid() AS backend_pid, \
                     pg_catalog.pg_is_in_recovery() AS standby, \
                     EXISTS (SELECT FROM pg_catalog.pg_proc p \
                         WHERE p.oid OPERATOR(pg_catalog.=) {oid}::pg_catalog.oid \
                         AND p.prosrc OPERATOR(pg_catalog.=) '{source}' \
                         AND p.prolang OPERATOR(pg_catalog.=) 12::pg_catalog.oid) AS genuine \
                 OFFSET 0) f OFFSET 0) s"
    )
}

/// The unlock, which answers `t` in the column `unlocked` when this session held the lock.
pub fn unlock(request: &Request) -> String {
    format!("SELECT {} AS unlocked", LockCalls::of(request).unlock)
}

/// Role and database defaults that would end the session or one of its statements, by the major version
/// that brought them.
const SHIELDED: [(&str, u32); 4] = [
    ("statement_timeout", 0),
    ("lock_timeout", 0),
    ("idle_session_timeout", 14),
    ("transaction_timeout", 17),
];

fn shield(server: &Server) -> String {
    let settings: Vec<String> = SHIELDED
        .iter()
        .filter(|(_, since)| server.major_version >= *since)
        .map(|(setting, _)| format!("pg_catalog.set_config('{setting}', '0', false)"))
        .collect();
    format!("SELECT {}", settings.join(", "))
}

/// A session is opened as a holder, so only one that waits has to say so, and take it back when granted.
fn stage_change(request: &Request) -> String {
    let (condition, stage) = match request.wait {
        Wait::Never => return "NULL".to_owned(),
        Wait::NotYet => ("NOT s.granted", Stage::Waiting(request.mode)),
        Wait::Since(_) => ("s.granted", Stage::Holding),
    };
    let name = request.identity.application_name(stage);
    format!(
        "CASE WHEN {condition} THEN pg_catalog.set_config('application_name', '{name}', false) END"
    )
}
