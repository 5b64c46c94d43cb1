//! The message that takes a lock, and what the server answers.

use std::collections::BTreeSet;

use tokio_postgres::SimpleQueryMessage;

use super::lock_calls::LockCalls;
use super::moment::{Moment, moment};
use super::pg_locks::is_any_key;
use super::shield::{Extent, READ_COMMITTED, set_config, shield, shielded};
use super::token::{EMIT, Token};
use super::{BACKEND, column, is_backend, queue, rows};
use crate::identity::{Since, Stage};
use crate::key::{LockKey, Mode};
use crate::session::{Request, Scope, Server, Wait};

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

/// What was taken, by which backend, and when.
#[derive(Clone, Debug)]
pub struct Grant {
    pub backend_pid: i32,
    /// Which of the choices was free, lowest first: the slot, where there are slots.
    pub choice: u32,
    pub token: Option<Token>,
    pub taken: Moment,
}

impl Answer {
    pub fn read(messages: Vec<SimpleQueryMessage>) -> anyhow::Result<Self> {
        let rows = rows(messages);
        let text = |name| column(&rows, name).unwrap_or_default();
        let mut words = text("answer").split(' ');
        Ok(match words.next().unwrap_or_default() {
            "elsewhere" => Self::Elsewhere,
            "granted" => Self::Granted(Grant {
                backend_pid: text("backend").parse()?,
                choice: words.next().unwrap_or("0").parse()?,
                token: words.next().map(Token::read).transpose()?,
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

impl Grant {
    /// The keys that were taken, in order.
    pub fn keys(&self, request: &Request) -> Vec<LockKey> {
        let mut choices = request.identity.claim.choices();
        choices.nth(self.choice as usize).unwrap_or_default()
    }
}

/// One message: shield the session, then take the lock unless that would be unsafe, prove it, and tell
/// everybody whether this session now holds or waits.
///
/// Everything is qualified: a `search_path` may put other functions in front.
pub fn try_lock(request: &Request, wait: &Wait, backend_pid: i32, server: &Server) -> String {
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
fn try_in_session(request: &Request, wait: &Wait, backend_pid: i32, server: &Server) -> String {
    let shield = shield(server, Some(request), Extent::Session);
    let is_expected = is_backend(backend_pid);
    let busy = match wait {
        Wait::Unannounced | Wait::NotYet | Wait::InLine(_) => "'busy'".to_owned(),
        Wait::Begins => {
            let stage = Stage::Waiting(request.mode);
            telling(request, stage, Extent::Session, "'waiting'")
        }
    };
    // Whoever will wait anyway does not go before those who do.
    let is_passed_by = match wait {
        Wait::NotYet | Wait::Begins => format!("WHEN {} THEN {busy} ", queue::is_awaited(request)),
        Wait::Unannounced | Wait::InLine(_) => String::new(),
    };
    let choices = each_choice(request, |calls, choice| {
        let (again, give_back) = (calls.take_again(), calls.give_back());
        let granted = granted_in_session(request, wait, choice);
        format!(
            "WHEN {} THEN CASE WHEN NOT {again} THEN 'unproven' WHEN NOT {give_back} THEN 'unproven' \
                 WHEN {again} THEN {granted} ELSE 'unproven' END",
            calls.take()
        )
    });
    let (is_genuine, at) = (are_genuine(request), moment("statement_timestamp"));
    format!(
        "{READ_COMMITTED}; {shield} WHERE {is_expected}; \
         SELECT CASE WHEN NOT {is_expected} THEN 'elsewhere' WHEN {IS_STANDBY} THEN 'standby' \
             WHEN NOT {is_genuine} THEN 'foreign' \
             {is_passed_by}{choices} ELSE {busy} END AS answer, {BACKEND} AS backend, {at} AS at"
    )
}

/// A session is opened as the holder of the first choice: only one that waited, or got another, has to say so.
fn granted_in_session(request: &Request, wait: &Wait, choice: u32) -> String {
    let granted = granted(request, choice);
    let tell = |answer: &str| telling(request, Stage::Holding(choice), Extent::Session, answer);
    match wait {
        Wait::InLine(line) => {
            // Sent again after it was cancelled, it may have left already.
            let (leave, granted) = (queue::leave(line), tell(&granted));
            format!("CASE WHEN ({leave}) IS NOT NULL THEN {granted} END")
        }
        Wait::Unannounced | Wait::NotYet | Wait::Begins if choice > 0 => tell(&granted),
        Wait::Unannounced | Wait::NotYet | Wait::Begins => granted,
    }
}

/// The answer, with the number of a choice that is not the first, and the token if that was asked for.
fn granted(request: &Request, choice: u32) -> String {
    match (
        choice,
        request.wants_token && request.scope == Scope::Session,
    ) {
        (0, false) => "'granted'".to_owned(),
        (_, false) => format!("'granted {choice}'"),
        (_, true) => format!("pg_catalog.concat('granted {choice} ', {EMIT})"),
    }
}

/// The transaction stays open when the lock was granted; whichever backend it is on is the session's until it
/// ends. What is set lasts as long, so a pooler hands nothing of it on.
///
/// Locks of one backend do not exclude one another, and a pooler's may have one that another of its clients took for
/// the session. Only the list of all locks shows that, whose cost grows with it.
fn try_in_transaction(request: &Request, server: &Server) -> String {
    let shield = shield(server, Some(request), Extent::Transaction);
    let name = request.identity.application_name(Stage::Holding(0));
    let name = set_config("application_name", &name, Extent::Transaction);
    let choices = each_choice(request, |calls, choice| {
        let granted = granted(request, choice);
        let granted = match choice {
            0 => granted,
            _ => telling(
                request,
                Stage::Holding(choice),
                Extent::Transaction,
                &granted,
            ),
        };
        format!("WHEN {} THEN {granted}", calls.take())
    });
    let (is_genuine, at) = (are_genuine(request), moment("now"));
    let path = set_config("search_path", "pg_catalog, pg_temp", Extent::Transaction);
    let claim = &request.identity.claim;
    let is_key = is_any_key(claim.choices().flatten());
    // What is taken before another fails stays taken until the transaction ends; so it is looked at first.
    let is_held_also = match claim.also_keys() {
        also if also.is_empty() => String::new(),
        also => format!(
            "OR {} AND {} AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())",
            is_any_key(also),
            excludes(request.mode)
        ),
    };
    format!(
        "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL statement_timeout = 0; SELECT {path}; {shield}, {name}; \
         SELECT CASE WHEN {IS_STANDBY} THEN 'standby' \
             WHEN NOT {is_genuine} THEN 'foreign' \
             WHEN EXISTS (SELECT FROM pg_locks l WHERE l.locktype = 'advisory' \
                 AND (l.pid = pg_backend_pid() AND {is_key} {is_held_also})) THEN 'busy' \
             {choices} ELSE 'busy' END AS answer, {BACKEND} AS backend, {at} AS at"
    )
}

/// Leaves nothing of a try that was cancelled, and the tickets alone.
pub fn put_back(request: &Request) -> String {
    let keys: BTreeSet<LockKey> = request.identity.claim.choices().flatten().collect();
    let keys: Vec<LockKey> = keys.into_iter().collect();
    shielded(&LockCalls::of(request, &keys).put_back())
}

/// The condition that a row `l` of `pg_locks` excludes a lock of this mode.
fn excludes(mode: Mode) -> &'static str {
    match mode {
        Mode::Exclusive => "true",
        Mode::Shared => "l.mode = 'ExclusiveLock'",
    }
}

fn are_genuine(request: &Request) -> String {
    LockCalls::of(request, &request.identity.claim.keys()).are_genuine()
}

fn each_choice(request: &Request, branch: impl Fn(LockCalls, u32) -> String) -> String {
    let branches = request.identity.claim.choices().zip(0..);
    let branches = branches.map(|(keys, choice)| branch(LockCalls::of(request, &keys), choice));
    branches.collect::<Vec<_>>().join(" ")
}

/// `answer`, once everybody can see that the session is at this stage.
fn telling(request: &Request, stage: Stage, extent: Extent, answer: &str) -> String {
    let name = request.identity.application_name(stage);
    let set = set_config("application_name", &name, extent);
    format!("CASE WHEN {set} IS NOT NULL THEN {answer} END")
}

const IS_STANDBY: &str = "pg_catalog.pg_is_in_recovery()";
