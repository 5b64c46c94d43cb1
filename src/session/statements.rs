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
    Busy,
    /// The wait has begun, at this time in microseconds since 1970 on the server's clock.
    Waiting {
        since: i64,
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
        Ok(match text("answer") {
            "granted" => {
                let backend_pid = text("backend_pid").parse()?;
                Self::Granted { backend_pid }
            }
            "busy" => Self::Busy,
            "waiting" => {
                let seconds: f64 = text("at").parse()?;
                #[expect(clippy::cast_possible_truncation, reason = "a date")]
                let since = (seconds * 1e6).round() as i64;
                Self::Waiting { since }
            }
            "standby" => Self::Standby,
            _ => Self::LookAlike,
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
/// Everything is qualified: a `search_path` may put other functions in front.
///
/// The proof takes the lock a second time and gives that one back: only a server that counts this session's
/// locks can do both. The definition in the catalog shows whether the function is the built-in one; asked by
/// function call it costs a tenth of what a query of `pg_proc` does in a fresh session.
pub fn try_lock(request: &Request, server: &Server) -> String {
    let waiting_since = match request.wait {
        Wait::Since(since) => Some(since),
        Wait::Never | Wait::NotYet | Wait::Begins => None,
    };
    let comment = request.identity.comment(waiting_since, server.is_utf8);
    let shield = shield(server);
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
    let (busy, granted, at) = match request.wait {
        Wait::Never | Wait::NotYet => ("'busy'".to_owned(), "'granted'".to_owned(), ""),
        Wait::Begins => (
            tell(Stage::Waiting(request.mode), "waiting"),
            "'granted'".to_owned(),
            ", pg_catalog.date_part('epoch', pg_catalog.statement_timestamp()) AS at",
        ),
        Wait::Since(_) => ("'busy'".to_owned(), tell(Stage::Holding, "granted"), ""),
    };
    format!(
        "{comment}{shield}; \
         SELECT pg_catalog.pg_backend_pid() AS backend_pid, \
             CASE WHEN pg_catalog.pg_is_in_recovery() THEN 'standby' \
             WHEN NOT pg_catalog.textlike(pg_catalog.pg_get_functiondef({oid}), \
                 '%LANGUAGE internal%$function${source}$function$%') THEN 'foreign' \
             WHEN NOT {try_lock} THEN {busy} \
             WHEN NOT {try_lock} THEN 'unproven' \
             WHEN {unlock} THEN {granted} \
             ELSE 'unproven' END AS answer{at}"
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
