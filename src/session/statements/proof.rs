//! The messages that prove that a lock is held, and that free it.

use tokio_postgres::SimpleQueryMessage;

use super::lock_calls::LockCalls;
use super::moment::moment;
use super::take::Grant;
use super::{column, is_backend, queue, rows};
use crate::identity::Since;
use crate::session::{Request, Scope, Server};

/// What a heartbeat or a release answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proof {
    Held,
    /// The same, and somebody asks for it.
    Asked,
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
            Some("asked") => Self::Asked,
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
///
/// Nothing but the end of the session, or of its transaction, makes this fail.
pub fn heartbeat(request: &Request, grant: &Grant, server: &Server) -> String {
    let comment = comment(request, grant, server);
    format!("{comment}{}", proving(request, grant, "'held'"))
}

/// The statement that gives this answer, itself SQL, once the lock is proven to be held.
pub fn proving(request: &Request, grant: &Grant, answer: &str) -> String {
    let is_held = match request.scope {
        Scope::Session => LockCalls::of(request, &grant.keys(request)).renew(),
        Scope::Transaction => is_same_transaction(grant),
    };
    let is_expected = is_backend(grant.backend_pid);
    format!(
        "SELECT CASE WHEN NOT {is_expected} THEN 'elsewhere' WHEN {is_held} THEN {answer} END AS answer"
    )
}

/// Frees the lock, in that backend only; answers as a heartbeat does whether it was held until now, and whether
/// others wait for it.
pub fn release(request: &Request, grant: &Grant, server: &Server) -> String {
    let comment = comment(request, grant, server);
    let (was_held, end) = match request.scope {
        Scope::Session => {
            let give_back = LockCalls::of(request, &grant.keys(request)).give_back();
            // All of its locks: a try that was cancelled may have left one more.
            let unlock_all = "pg_catalog.pg_advisory_unlock_all() IS NOT NULL";
            (format!("({give_back} AND {unlock_all})"), "")
        }
        Scope::Transaction => (is_same_transaction(grant), "; COMMIT"),
    };
    let is_expected = is_backend(grant.backend_pid);
    let is_awaited = queue::is_awaited(request);
    format!(
        "{comment}SELECT CASE WHEN NOT {is_expected} THEN 'elsewhere' WHEN NOT {was_held} THEN 'gone' \
             WHEN {is_awaited} THEN 'awaited' ELSE 'held' END AS answer{end}"
    )
}

/// What tells everybody of the holder, in front of each of its statements.
pub fn comment(request: &Request, grant: &Grant, server: &Server) -> String {
    let held = Since::Held(grant.taken.since_1970);
    request.identity.comment(Some(held), server.is_utf8)
}

fn is_same_transaction(grant: &Grant) -> String {
    let (now, digits) = (moment("now"), &grant.taken.digits);
    format!("pg_catalog.texteq({now}, '{digits}')")
}
