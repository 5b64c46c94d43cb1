//! Asking a holder to let go, by an advisory lock that only one who asks that holder takes.
//!
//! It is shared, so that several can ask, and of a transaction, so that it can be taken through any pooler. The holder
//! obeys whom PostgreSQL would let end its session.

use tokio_postgres::SimpleQueryMessage;

use super::lock_calls::if_taken;
use super::pg_locks::is_key;
use super::proof::{comment, proving};
use super::rows;
use super::shield::shielded;
use super::take::Grant;
use crate::identity::Stage;
use crate::key::LockKey;
use crate::requester::Requester;
use crate::session::{Request, Scope, Server};

/// Somebody who asks a holder to let go.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Asking {
    pub requester: Requester,
    /// Whether PostgreSQL would let them end the holder's session.
    pub may: bool,
}

/// A heartbeat that also tells whether somebody asks for the lock. It needs room in the server's lock table, and fails
/// where there is none.
pub fn attentive_heartbeat(request: &Request, grant: &Grant, server: &Server) -> String {
    let answer = if_taken(key(request, grant), "'asked'", "'held'");
    let comment = comment(request, grant, server);
    let proof = in_scope(request, proving(request, grant, &answer));
    format!("{comment}{proof}")
}

/// The lock by which this holder is asked.
fn key(request: &Request, grant: &Grant) -> LockKey {
    let stage = Stage::Holding(grant.choice);
    LockKey::release_request(&request.identity.application_name(stage), grant.backend_pid)
}

/// What undoes a statement that failed in the transaction that holds the lock, and all locks of tables that it took.
pub const UNDO: &str = "ROLLBACK TO SAVEPOINT pglock; RELEASE SAVEPOINT pglock";

/// The statement, which must not end the transaction that holds the lock by failing.
fn in_scope(request: &Request, statement: String) -> String {
    match request.scope {
        Scope::Session => statement,
        Scope::Transaction => format!("SAVEPOINT pglock; {statement}; {UNDO}"),
    }
}

/// Who asks, as the server knows them; asked when a heartbeat found that somebody does. A transaction sees the same
/// sessions all along unless it is told to look again.
pub fn who_asks(request: &Request, grant: &Grant, server: &Server) -> String {
    let is_request = is_key(key(request, grant));
    let may_end = may_end("r", "h");
    let look = shielded(&format!(
        "SELECT pg_stat_clear_snapshot(); \
         SELECT a.pid, a.usename, a.application_name, {may_end} AS may \
         FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid JOIN pg_roles r ON r.oid = a.usesysid, \
             pg_stat_activity me JOIN pg_roles h ON h.oid = me.usesysid \
         WHERE me.pid = pg_backend_pid() AND l.locktype = 'advisory' AND l.granted AND {is_request} \
             AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())"
    ));
    let comment = comment(request, grant, server);
    format!("{comment}{}", in_scope(request, look))
}

/// Whether PostgreSQL lets one role end a session of another; both stand for rows of `pg_roles`.
///
/// Whose privileges a role has counts, as for `pg_terminate_backend` (PostgreSQL's `signalfuncs.c`), not whose member
/// it is.
pub fn may_end(requester: &str, holder: &str) -> String {
    format!(
        "CASE WHEN {holder}.rolsuper THEN {requester}.rolsuper \
             ELSE pg_has_role({requester}.oid, {holder}.oid, 'USAGE') \
                 OR pg_has_role({requester}.oid, 'pg_signal_backend'::name, 'USAGE') END"
    )
}

impl Asking {
    pub fn read(messages: Vec<SimpleQueryMessage>) -> Vec<Self> {
        let asking = rows(messages).into_iter().filter_map(|row| {
            let text = |name| row.try_get(name).ok().flatten();
            Some(Self {
                requester: Requester {
                    backend_pid: text("pid")?.parse().ok()?,
                    user: text("usename").unwrap_or_default().to_owned(),
                    application_name: text("application_name").unwrap_or_default().to_owned(),
                },
                may: text("may") == Some("t"),
            })
        });
        asking.collect()
    }
}
