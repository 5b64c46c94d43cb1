//! The queue of those who wait for a lock, in advisory locks of its own.
//!
//! For each lock there is a class, an int4 that its key decides. Whoever waits holds `(class, 0)` shared, the
//! marker, which tells a holder that somebody waits; and `(class, N)`, a ticket, N one more than the highest.
//! They go with the session, whatever ends it.

use tokio_postgres::SimpleQueryMessage;

use super::shield::shielded;
use super::{column, is_backend, rows};
use crate::identity::Since;
use crate::key::Mode;
use crate::session::{Line, Request, Server, Wait};

/// What came of joining the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Joined {
    Waiting {
        ticket: i32,
        ahead: u32,
        /// Without the marker a holder who leaves tells nobody: one has just looked whether there is any.
        is_marked: bool,
    },
    /// All that were tried were taken meanwhile.
    NoTicket,
    /// Another backend answered than the one expected; nothing was taken.
    Elsewhere,
}

/// What a look at the queue found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    /// How many tickets are lower.
    pub ahead: u32,
    /// Nobody holds the lock.
    pub is_free: bool,
}

/// Above these there is no room for candidates; a foreign lock there is no ticket.
const HIGHEST: i32 = i32::MAX - 1000;

/// How many tickets are tried when others join at the same moment.
const CANDIDATES: u32 = 100;

/// The tickets of a class in this database; every role can see them all.
fn tickets(class: i32) -> String {
    let class = class.cast_unsigned();
    format!(
        "SELECT pid, objid::int8 AS number FROM pg_locks \
         WHERE locktype = 'advisory' AND granted AND classid = {class}::oid AND objsubid = 2 \
             AND objid::int8 BETWEEN 1 AND {HIGHEST} \
             AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
    )
}

/// Listens, and takes a ticket and the marker, all in one message: a release after it finds this session, and one
/// before it shows in the next try.
pub fn join(request: &Request, since: i64, backend_pid: i32, server: &Server) -> String {
    let class = request.identity.lock.key.queue_class();
    let comment = comment(request, since, server);
    let is_expected = is_backend(backend_pid);
    let tickets = tickets(class);
    let statement = format!(
        "LISTEN {channel}; \
         WITH tickets AS MATERIALIZED ({tickets}), \
         last AS MATERIALIZED (SELECT coalesce(max(number), 0) AS highest, count(*) AS waiting FROM tickets), \
         candidates AS MATERIALIZED ( \
             SELECT generate_series(highest + 1, highest + {CANDIDATES}) AS number FROM last WHERE {is_expected}), \
         taken AS MATERIALIZED ( \
             SELECT number FROM candidates WHERE pg_try_advisory_lock({class}, number::int4) LIMIT 1) \
         SELECT {is_expected} AS mine, number AS ticket, waiting + number - highest - 1 AS ahead, \
             CASE WHEN number IS NOT NULL THEN pg_try_advisory_lock_shared({class}, 0) END AS marked \
         FROM last LEFT JOIN taken ON true",
        channel = channel(backend_pid),
    );
    format!("{comment}{}", shielded(&statement))
}

impl Joined {
    pub fn read(messages: Vec<SimpleQueryMessage>) -> anyhow::Result<Self> {
        let rows = rows(messages);
        if column(&rows, "mine") != Some("t") {
            return Ok(Self::Elsewhere);
        }
        let Some(ticket) = column(&rows, "ticket") else {
            return Ok(Self::NoTicket);
        };
        Ok(Self::Waiting {
            ticket: ticket.parse()?,
            ahead: column(&rows, "ahead").unwrap_or_default().parse()?,
            is_marked: column(&rows, "marked") == Some("t"),
        })
    }
}

/// Takes the marker.
pub fn mark(request: &Request, since: i64, backend_pid: i32, server: &Server) -> String {
    let class = request.identity.lock.key.queue_class();
    let comment = comment(request, since, server);
    let is_expected = is_backend(backend_pid);
    let mark = format!(
        "SELECT CASE WHEN {is_expected} THEN pg_try_advisory_lock_shared({class}, 0) END AS marked"
    );
    format!("{comment}{}", shielded(&mark))
}

pub fn is_marked(messages: Vec<SimpleQueryMessage>) -> bool {
    column(&rows(messages), "marked") == Some("t")
}

/// Asks where the queue stands.
pub fn look(request: &Request, line: Line, server: &Server) -> String {
    let key = request.identity.lock.key;
    let comment = comment(request, line.since, server);
    let (tickets, ticket) = (tickets(key.queue_class()), line.ticket);
    let is_key = super::is_key(key);
    let look = format!(
        "SELECT (SELECT count(*) FROM ({tickets}) AS t WHERE number < {ticket}) AS ahead, \
             NOT EXISTS (SELECT FROM pg_locks l WHERE l.locktype = 'advisory' AND {is_key} \
                 AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())) AS free"
    );
    format!("{comment}{}", shielded(&look))
}

impl Look {
    pub fn read(messages: Vec<SimpleQueryMessage>) -> anyhow::Result<Self> {
        let rows = rows(messages);
        let text = |name| column(&rows, name).unwrap_or_default();
        Ok(Self {
            ahead: text("ahead").parse()?,
            is_free: text("free") == "t",
        })
    }
}

/// Tells the first two in the queue which ticket comes first.
pub fn wake(request: &Request) -> String {
    shielded(&wake_statement(request))
}

fn wake_statement(request: &Request) -> String {
    let tickets = tickets(request.identity.lock.key.queue_class());
    format!(
        "WITH first AS MATERIALIZED ({tickets} ORDER BY objid LIMIT 2) \
         SELECT count(pg_notify('{CHANNEL}' || pid, (SELECT min(number) FROM first)::text)) FROM first"
    )
}

/// Whether somebody waits; leaves nothing. Everything is qualified, for the hot path.
pub fn is_awaited(request: &Request) -> String {
    let class = request.identity.lock.key.queue_class();
    let marker = format!("'{class}'::pg_catalog.int4, '0'::pg_catalog.int4");
    format!(
        "CASE WHEN pg_catalog.pg_try_advisory_lock({marker}) \
             THEN NOT pg_catalog.pg_advisory_unlock({marker}) ELSE true END"
    )
}

/// What one who stood in line has left to do once it holds the lock: notifications wake everybody who listens, and
/// another who shares the lock may come in too.
pub fn settle(request: &Request, wait: Wait) -> Option<String> {
    let Wait::InLine(_) = wait else {
        return None;
    };
    Some(match request.mode {
        Mode::Exclusive => "UNLISTEN *".to_owned(),
        Mode::Shared => format!("UNLISTEN *; {}", wake(request)),
    })
}

/// Gives ticket and marker back, and has others know who comes first now, if this one may have been told it.
pub fn withdraw(request: &Request, line: Line, backend_pid: i32) -> String {
    let (is_expected, leave) = (is_backend(backend_pid), leave(request, line));
    let ticket = line.ticket;
    let wake = wake_statement(request);
    shielded(&format!(
        "SELECT CASE WHEN {is_expected} THEN {leave} END; {wake} WHERE {ticket} <= (SELECT max(number) FROM first)"
    ))
}

/// Gives ticket and marker back; true.
pub fn leave(request: &Request, line: Line) -> String {
    let class = request.identity.lock.key.queue_class();
    let pair = |second: i32| format!("'{class}'::pg_catalog.int4, '{second}'::pg_catalog.int4");
    format!(
        "pg_catalog.pg_advisory_unlock({}) AND pg_catalog.pg_advisory_unlock_shared({})",
        pair(line.ticket),
        pair(0)
    )
}

/// Channels are those of one database; each session that waits has its own.
const CHANNEL: &str = "pglock_";

fn channel(backend_pid: i32) -> String {
    format!("{CHANNEL}{backend_pid}")
}

fn comment(request: &Request, since: i64, server: &Server) -> String {
    let since = Some(Since::Waiting(since));
    request.identity.comment(since, server.is_utf8)
}
