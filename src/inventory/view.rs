//! What is shown of one lock: the JSON keys are a promise.

use std::time::{Duration, SystemTime};

use serde::{Serialize, Serializer};

use super::owner::{Owner, Owners};
use super::rows::{LockRow, Row};
use crate::identity::{Since, Stage, Told};
use crate::key::{Lock, LockKey, LockName, Mode};

/// A holder or waiter of one lock, as `list --json` gives it; what is unknown is `None`.
#[derive(Debug, Serialize)]
pub struct LockView {
    pub name: Option<String>,
    pub namespace: Option<String>,
    #[serde(serialize_with = "as_text")]
    pub key: LockKey,
    pub form: &'static str,
    pub state: State,
    pub mode: Mode,
    pub database: Option<String>,
    pub pid: Option<i32>,
    pub user: Option<String>,
    /// The host that the pglock process runs on.
    pub host: Option<String>,
    pub wrapper_pid: Option<u32>,
    /// Address and port of the connection, `[local]` for a Unix socket.
    pub client: Option<String>,
    pub application_name: Option<String>,
    pub backend_start: Option<Timestamp>,
    /// When the lock was taken, or when the wait began.
    pub since: Option<Timestamp>,
    pub seconds: Option<f64>,
    pub command: Option<String>,
    /// The software that such a key is known of; none for a lock that pglock took by name.
    pub program: Option<Owner>,
    pub blocked_by: Vec<i32>,
    pub prepared: bool,
    /// The identifier for ROLLBACK PREPARED, where a prepared transaction holds the lock.
    #[serde(skip)]
    pub prepared_transaction: Option<String>,
    /// `name` and `namespace`, and by which rule they have this key.
    #[serde(skip)]
    pub lock_name: Option<LockName>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    Held,
    Waiting,
}

/// Microseconds since 1970, written as RFC 3339 UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Timestamp(pub i64);

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let since_1970 = Duration::from_micros(self.0.try_into().unwrap_or(0));
        let time = SystemTime::UNIX_EPOCH + since_1970;
        serializer.collect_str(&humantime::format_rfc3339_micros(time))
    }
}

/// 64-bit numbers do not survive every JSON reader.
fn as_text<S: Serializer>(key: &LockKey, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(key)
}

impl LockView {
    /// The holder in a sentence: name, user, host, pid, backend, since when, command.
    pub fn describe(&self) -> String {
        let mut words = Vec::new();
        words.push(self.user.clone().unwrap_or_else(|| "somebody".to_owned()));
        let place = self.host.as_ref().or(self.client.as_ref());
        words.extend(place.map(|place| format!("on {place}")));
        words.extend(self.wrapper_pid.map(|pid| format!("pid {pid}")));
        words.push(match self.pid {
            Some(pid) => format!("(backend {pid})"),
            None => "(a prepared transaction)".to_owned(),
        });
        words.extend(self.age().map(|age| format!("for {age}")));
        let doing = match (&self.command, &self.program) {
            (Some(command), _) => Some(format!("running {command}")),
            (None, Some(program)) => Some(program.to_string()),
            (None, None) => self
                .application_name
                .clone()
                .filter(|name| !name.is_empty() && self.host.is_none()),
        };
        let doing = doing.map_or_else(String::new, |doing| format!(", {doing}"));
        words.join(" ") + &doing
    }

    /// How long it has been held or waited for: `3m 5s`, at most two units.
    pub fn age(&self) -> Option<String> {
        let whole = Duration::try_from_secs_f64(self.seconds?.max(0.0).floor()).ok()?;
        let age = humantime::format_duration(whole).to_string();
        Some(age.split(' ').take(2).collect::<Vec<_>>().join(" "))
    }
}

/// Holders before waiters, then oldest first.
pub fn from_rows(rows: Vec<Row>) -> Vec<LockView> {
    let (locks, sessions): (Vec<Row>, Vec<Row>) =
        rows.into_iter().partition(|row| row.lock.is_some());
    let mut views: Vec<LockView> = locks.into_iter().filter_map(lock_view).collect();
    let waiting: Vec<LockView> = sessions
        .into_iter()
        .filter_map(|session| waiting_view(session, &views))
        .collect();
    views.extend(waiting);
    let mut owners = None;
    for view in views.iter_mut().filter(|view| view.name.is_none()) {
        let owners = owners.get_or_insert_with(Owners::new);
        view.program = owners.of(view.key, view.database.as_deref());
    }
    views.sort_by(|a, b| {
        let order = |view: &LockView| {
            (
                view.state,
                view.since.is_none(),
                view.since,
                view.pid,
                view.key,
            )
        };
        order(a).cmp(&order(b))
    });
    views
}

/// A row of `pg_locks`.
fn lock_view(mut row: Row) -> Option<LockView> {
    let lock = row.lock.take()?;
    let LockRow { key, granted, .. } = lock;
    let told = told(&row);
    if told.as_ref().is_some_and(|told| is_bookkeeping(told, key)) {
        return None;
    }
    let is_pglock = told.as_ref().is_some_and(|told| told.command.is_some());
    let since = match (granted, lock.prepared) {
        (false, _) => lock.wait_start,
        (true, Some(prepared)) => Some(prepared),
        // The last statement of a pglock holder is a heartbeat, which says it, or the try that was granted.
        (true, None) => match told.as_ref().and_then(|told| told.since) {
            Some(Since::Held(since)) => believable(since, &row),
            Some(Since::Waiting(_)) | None => None,
        }
        .or(row.query_start.filter(|_| is_pglock)),
    };
    let mode = match lock.mode.as_str() {
        "ShareLock" => Mode::Shared,
        _ => Mode::Exclusive,
    };
    let mut view = view(row, told, key, mode, since);
    view.state = if granted { State::Held } else { State::Waiting };
    view.prepared = view.pid.is_none();
    view.prepared_transaction = lock.prepared_transaction;
    view.blocked_by = lock.blocked_by;
    Some(view)
}

/// Whether that is the ticket or the marker of a session that waits in line, and is shown as such.
fn is_bookkeeping(told: &Told, key: LockKey) -> bool {
    let LockKey::Pair(class, _) = key else {
        return false;
    };
    let waits = matches!(told.stage, Stage::Waiting(_));
    let awaited = told.lock.as_ref().filter(|_| waits);
    awaited.is_some_and(|lock| lock.key.queue_class() == class)
}

/// A pglock session that waits between two tries, unless it got the lock while the rows were read.
fn waiting_view(row: Row, locks: &[LockView]) -> Option<LockView> {
    let told = told(&row)?;
    let Stage::Waiting(mode) = told.stage else {
        return None;
    };
    let key = told.lock.as_ref()?.key;
    let since = match told.since {
        Some(Since::Waiting(since)) => believable(since, &row),
        Some(Since::Held(_)) | None => None,
    }
    .or(row.query_start);
    let same_lock = |lock: &&LockView| lock.key == key && lock.database == row.database;
    if locks
        .iter()
        .filter(same_lock)
        .any(|lock| lock.pid == row.pid)
    {
        return None;
    }
    // Whoever is queued in the server goes before one who tries from outside.
    let blocks = |lock: &&LockView| mode == Mode::Exclusive || lock.mode == Mode::Exclusive;
    let blocked_by = locks
        .iter()
        .filter(same_lock)
        .filter(blocks)
        .filter_map(|lock| lock.pid)
        .collect();
    let mut view = view(row, Some(told), key, mode, since);
    view.state = State::Waiting;
    view.blocked_by = blocked_by;
    view.blocked_by.sort_unstable();
    view.blocked_by.dedup();
    Some(view)
}

/// Anybody can say anything: what a session did was after its start and before now.
fn believable(since: i64, row: &Row) -> Option<i64> {
    let possible = row.backend_start.unwrap_or(0)..=row.now;
    Some(since).filter(|since| possible.contains(since))
}

fn told(row: &Row) -> Option<Told> {
    let query = row.query.as_deref().unwrap_or_default();
    Told::by(row.application_name.as_deref()?, query)
}

/// What both kinds of row have in common.
fn view(row: Row, told: Option<Told>, key: LockKey, mode: Mode, since: Option<i64>) -> LockView {
    let (host, wrapper_pid, command, lock) = match told {
        Some(told) => (told.host, told.wrapper_pid, told.command, told.lock),
        None => (None, None, None, None),
    };
    let name = verified(lock, key);
    #[expect(
        clippy::cast_precision_loss,
        reason = "a lock is not held for 285 years"
    )]
    let seconds = since.map(|since| row.now.saturating_sub(since).max(0) as f64 / 1e6);
    LockView {
        namespace: name.as_ref().and_then(|name| name.namespace.clone()),
        name: name.as_ref().map(|name| name.name.clone()),
        key,
        form: key.form(),
        state: State::Held,
        mode,
        database: row.database,
        pid: row.pid,
        user: row.user,
        host,
        wrapper_pid,
        client: row.client,
        application_name: row.application_name,
        backend_start: row.backend_start.map(Timestamp),
        since: since.map(Timestamp),
        seconds,
        command,
        program: None,
        blocked_by: Vec::new(),
        prepared: false,
        prepared_transaction: None,
        lock_name: name,
    }
}

/// Anybody can call a session what they like: a name is shown only where it hashes to the key.
fn verified(lock: Option<Lock>, key: LockKey) -> Option<LockName> {
    lock?.name.filter(|name| name.key() == Ok(key))
}
