//! The queue of those who wait for a lock, in advisory locks of its own.
//!
//! For each lock there is a class, an int4 that its key decides. Whoever waits holds `(class, 0)` shared, the
//! marker, which tells a holder that somebody waits; and `(class, N)`, a ticket, N one more than the highest.
//! They go with the session, whatever ends it. Who waits for several locks has a ticket for each.

use tokio_postgres::SimpleQueryMessage;

use super::lock_calls::if_taken;
use super::shield::shielded;
use super::{column, is_any_key, is_backend, rows};
use crate::identity::Since;
use crate::key::{LockKey, Mode};
use crate::session::{Line, News, Request, Server, Ticket, Wait};

/// What came of joining the queues.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Joined {
    Waiting {
        tickets: Vec<Ticket>,
        /// In the longest of the queues.
        ahead: u32,
        /// The classes without their marker, where a holder who leaves tells nobody: one has just looked whether there
        /// is any.
        unmarked: Vec<i32>,
    },
    /// All that were tried in one of them were taken meanwhile.
    NoTicket,
    /// Another backend answered than the one expected; nothing was taken.
    Elsewhere,
}

/// What a look at the queue found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Look {
    /// How many tickets are lower, in the longest of the queues.
    pub ahead: u32,
    /// The first ticket, which changes when it is served; of several queues their sum.
    pub first: i64,
    /// What is waited for could be taken now.
    pub is_free: bool,
    /// The classes of the queues whose locks could.
    pub free: Vec<i32>,
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

/// Listens, and takes tickets and markers, all in one message: a release after it finds this session, and one
/// before it shows in the next try.
pub fn join(request: &Request, since: i64, backend_pid: i32, server: &Server) -> String {
    let comment = comment(request, since, server);
    let listen = format!("LISTEN {CHANNEL}{backend_pid}");
    let joins = classes(request).map(|class| join_one(class, backend_pid));
    let statements: Vec<String> = std::iter::once(listen).chain(joins).collect();
    format!("{comment}{}", shielded(&statements.join("; ")))
}

fn join_one(class: i32, backend_pid: i32) -> String {
    let is_expected = is_backend(backend_pid);
    let tickets = tickets(class);
    format!(
        "WITH tickets AS MATERIALIZED ({tickets}), \
         last AS MATERIALIZED (SELECT coalesce(max(number), 0) AS highest, count(*) AS waiting FROM tickets), \
         candidates AS MATERIALIZED ( \
             SELECT generate_series(highest + 1, highest + {CANDIDATES}) AS number FROM last WHERE {is_expected}), \
         taken AS MATERIALIZED ( \
             SELECT number FROM candidates WHERE pg_try_advisory_lock({class}, number::int4) LIMIT 1) \
         SELECT {is_expected} AS mine, {class} AS class, number AS ticket, waiting + number - highest - 1 AS ahead, \
             CASE WHEN number IS NOT NULL THEN pg_try_advisory_lock_shared({class}, 0) END AS marked \
         FROM last LEFT JOIN taken ON true"
    )
}

impl Joined {
    pub fn read(messages: Vec<SimpleQueryMessage>) -> anyhow::Result<Self> {
        let (mut tickets, mut unmarked, mut most_ahead) = (Vec::new(), Vec::new(), 0);
        for message in messages {
            let SimpleQueryMessage::Row(row) = message else {
                continue;
            };
            // Settings answer with a row, too.
            let Ok(mine) = row.try_get("mine") else {
                continue;
            };
            if mine != Some("t") {
                return Ok(Self::Elsewhere);
            }
            let Some(number) = row.get("ticket") else {
                return Ok(Self::NoTicket);
            };
            let class = row.get("class").unwrap_or_default().parse()?;
            tickets.push(Ticket {
                class,
                number: number.parse()?,
            });
            most_ahead = most_ahead.max(row.get("ahead").unwrap_or_default().parse()?);
            if row.get("marked") != Some("t") {
                unmarked.push(class);
            }
        }
        Ok(Self::Waiting {
            tickets,
            ahead: most_ahead,
            unmarked,
        })
    }
}

/// Takes the marker of a class.
pub fn mark(
    request: &Request,
    class: i32,
    since: i64,
    backend_pid: i32,
    server: &Server,
) -> String {
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

/// Asks where the queues stand.
pub fn look(request: &Request, line: &Line, server: &Server) -> String {
    let comment = comment(request, line.since, server);
    let queues = line.tickets.iter().zip(0..);
    let queues = queues.map(|(Ticket { class, number }, at)| {
        let tickets = tickets(*class);
        format!(
            "(SELECT count(*) FILTER (WHERE number < {number}) AS ahead, coalesce(min(number), 0) AS first \
             FROM ({tickets}) AS t) AS q{at}"
        )
    });
    let queues = queues.collect::<Vec<_>>().join(", ");
    let each = |what: &str, between: &str| {
        let columns = (0..line.tickets.len()).map(|at| format!("q{at}.{what}"));
        columns.collect::<Vec<_>>().join(between)
    };
    let (ahead, first) = (each("ahead", ", "), each("first", " + "));
    let claim = &request.identity.claim;
    let free = request.queued().into_iter().zip(&line.tickets);
    let free = free.map(|(key, Ticket { class, .. })| {
        let (held, slots) = if key == claim.lock.key {
            (held(claim.slot_keys()), claim.slots.unwrap_or(1))
        } else {
            (held([key]), 1)
        };
        format!("CASE WHEN ({held}) < {slots} THEN {class} END")
    });
    let free = free.collect::<Vec<_>>().join(", ");
    let look = format!(
        "SELECT greatest({ahead}) AS ahead, {first} AS first, concat_ws(',', {free}) AS free FROM {queues}"
    );
    format!("{comment}{}", shielded(&look))
}

/// How many of these keys somebody holds, or is queued for in the server.
fn held(keys: impl IntoIterator<Item = LockKey>) -> String {
    let is_key = is_any_key(keys);
    format!(
        "SELECT count(DISTINCT (l.classid, l.objid)) FROM pg_locks l WHERE l.locktype = 'advisory' AND {is_key} \
             AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())"
    )
}

impl Look {
    pub fn read(messages: Vec<SimpleQueryMessage>, line: &Line) -> anyhow::Result<Self> {
        let rows = rows(messages);
        let text = |name| column(&rows, name).unwrap_or_default();
        let free = text("free").split_terminator(',').map(str::parse);
        let free = free.collect::<Result<Vec<i32>, _>>()?;
        Ok(Self {
            ahead: text("ahead").parse()?,
            first: text("first").parse()?,
            is_free: free.len() == line.tickets.len(),
            free,
        })
    }
}

/// Tells the first two in each queue which ticket of it comes first.
pub fn wake(request: &Request) -> String {
    let news = match request.identity.claim.slots {
        None => News::Lock,
        Some(_) => News::Slot,
    };
    let wakes = classes(request).map(|class| wake_one(class, 0, news));
    shielded(&wakes.collect::<Vec<_>>().join("; "))
}

/// Has the next one behind these places look: what is free is not what this one waits for.
pub fn pass_on<'a>(places: impl Iterator<Item = &'a Ticket>) -> String {
    let wakes = places.map(|Ticket { class, number }| wake_one(*class, *number, News::PassedOn));
    shielded(&wakes.collect::<Vec<_>>().join("; "))
}

/// The classes of the queues in which whoever makes this request waits.
pub fn classes(request: &Request) -> impl Iterator<Item = i32> {
    request.queued().into_iter().map(LockKey::queue_class)
}

/// Tells the first two behind this number, which is 0 or a ticket, who is the first of them; what was passed on is told
/// to one alone, or all would be told by all.
fn wake_one(class: i32, behind: i32, news: News) -> String {
    let (tickets, word) = (tickets(class), news.word());
    let limit = match news {
        News::Lock | News::Slot => 2,
        News::PassedOn => 1,
    };
    format!(
        "WITH first AS MATERIALIZED ({tickets} AND objid::int8 > {behind} ORDER BY objid LIMIT {limit}) \
         SELECT count(pg_notify('{CHANNEL}' || pid, concat_ws(' ', {class}, (SELECT min(number) FROM first), '{word}'))) \
         FROM first"
    )
}

/// Whether somebody waits; leaves nothing. Everything is qualified, for the hot path.
pub fn is_awaited(request: &Request) -> String {
    let awaited = classes(request).map(|class| if_taken(LockKey::Pair(class, 0), "true", "false"));
    let awaited: Vec<String> = awaited.collect();
    if awaited.is_empty() {
        return "false".to_owned();
    }
    awaited.join(" OR ")
}

/// What one who stood in line has left to do once it holds the lock: notifications wake everybody who listens, and
/// another who shares the lock, or gets another slot of it, may come in too.
///
/// The comment stands for the holder until its first heartbeat.
pub fn settle(request: &Request, wait: &Wait, comment: &str) -> Option<String> {
    let Wait::InLine(_) = wait else {
        return None;
    };
    let has_room = request.mode == Mode::Shared || request.identity.claim.slots.is_some();
    let wake = has_room.then(|| format!("; {}", wake(request)));
    Some(format!("{comment}UNLISTEN *{}", wake.unwrap_or_default()))
}

/// Gives tickets and markers back, and has others know who comes first now, if this one may have been told it.
pub fn withdraw(line: &Line, backend_pid: i32) -> String {
    let (is_expected, leave) = (is_backend(backend_pid), leave(line));
    let wakes = line.tickets.iter().map(|Ticket { class, number }| {
        let wake = wake_one(*class, 0, News::Lock);
        format!("; {wake} WHERE {number} <= (SELECT max(number) FROM first)")
    });
    let wakes: String = wakes.collect();
    shielded(&format!(
        "SELECT CASE WHEN {is_expected} THEN {leave} END{wakes}"
    ))
}

/// Gives tickets and markers back; true.
pub fn leave(line: &Line) -> String {
    let left = line.tickets.iter().map(|Ticket { class, number }| {
        format!(
            "pg_catalog.pg_advisory_unlock({}) AND pg_catalog.pg_advisory_unlock_shared({})",
            pair(*class, *number),
            pair(*class, 0)
        )
    });
    left.collect::<Vec<_>>().join(" AND ")
}

fn pair(first: i32, second: i32) -> String {
    format!("'{first}'::pg_catalog.int4, '{second}'::pg_catalog.int4")
}

/// Channels are those of one database; each session that waits has its own.
const CHANNEL: &str = "pglock_";

fn comment(request: &Request, since: i64, server: &Server) -> String {
    let since = Some(Since::Waiting(since));
    request.identity.comment(since, server.is_utf8)
}
