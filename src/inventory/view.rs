//! What is shown of one lock: the JSON keys are a promise.

use std::collections::HashSet;
use std::time::{Duration, SystemTime};

use serde::{Serialize, Serializer};

use super::age;
use super::owner::{Owner, Owners};
use super::requests::Requests;
use super::rows::{LockRow, Row};
use crate::identity::{Since, Stage, Told};
use crate::key::{Lock, LockKey, LockName, Mode, ShownKey};

/// A holder or waiter of one lock, as `list --json` gives it; what is unknown is `None`.
#[derive(Debug, Serialize)]
pub struct LockView {
    pub name: Option<String>,
    pub namespace: Option<String>,
    #[serde(serialize_with = "as_text")]
    pub key: ShownKey,
    /// The key of the lock whose slot that is; else the same.
    #[serde(skip)]
    pub lock_key: ShownKey,
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
    /// Which slot of the lock it is, and how many there are, where they are said to be limited.
    pub slot: Option<u32>,
    pub slots: Option<u32>,
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
fn as_text<S: Serializer>(key: &ShownKey, serializer: S) -> Result<S::Ok, S::Error> {
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

    /// Whether that is a pglock which holds the lock, as far as it says so itself.
    pub fn is_held_by_pglock(&self) -> bool {
        let called = self.application_name.as_deref().unwrap_or_default();
        let told = Told::by(called, "").filter(|_| self.pid.is_some());
        told.is_some_and(|told| matches!(told.stage, Stage::Holding(_)))
    }

    /// How long it has been held or waited for: `3m 5s`, at most two units.
    pub fn age(&self) -> Option<String> {
        let whole = Duration::try_from_secs_f64(self.seconds?.max(0.0).floor()).ok()?;
        Some(age::told(whole.as_secs()))
    }

    /// Whether the server hides from this role what others may see of the session.
    pub fn is_partly_hidden(&self) -> bool {
        self.user.is_some() && !self.prepared && self.backend_start.is_none()
    }
}

/// Holders before waiters, then oldest first.
pub fn from_rows(rows: Vec<Row>) -> Vec<LockView> {
    let (locks, sessions): (Vec<Row>, Vec<Row>) =
        rows.into_iter().partition(|row| row.lock.is_some());
    let markers = markers(&locks);
    let requests = Requests::among(&locks);
    let shown = locks.into_iter().filter(|row| !requests.hold(row));
    let views = shown.filter_map(|row| lock_view(row, &markers));
    let mut views: Vec<LockView> = views.collect();
    let waiting: Vec<LockView> = sessions
        .into_iter()
        .flat_map(|session| waiting_views(&session, &views))
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
fn lock_view(mut row: Row, markers: &HashSet<(i32, i32)>) -> Option<LockView> {
    let lock = row.lock.take()?;
    let LockRow { key, granted, .. } = lock;
    let told = told(&row);
    if is_bookkeeping(&row, told.as_ref(), key, markers) {
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
    let mut view = view(&row, told.as_ref(), key, mode, since);
    view.state = if granted { State::Held } else { State::Waiting };
    view.prepared = view.pid.is_none();
    view.prepared_transaction = lock.prepared_transaction;
    view.blocked_by = lock.blocked_by;
    Some(view)
}

/// The pids and classes of the markers that sessions hold, in queues or not.
fn markers(rows: &[Row]) -> HashSet<(i32, i32)> {
    let marker = |row: &Row| match row.lock.as_ref()? {
        LockRow {
            key: ShownKey::Lock(LockKey::Pair(class, 0)),
            mode,
            granted: true,
            ..
        } if mode == "ShareLock" => Some((row.pid?, *class)),
        _ => None,
    };
    rows.iter().filter_map(marker).collect()
}

/// Whether that is the ticket or the marker of a session that waits in line, and is shown as such.
fn is_bookkeeping(
    row: &Row,
    told: Option<&Told>,
    key: ShownKey,
    markers: &HashSet<(i32, i32)>,
) -> bool {
    let (ShownKey::Lock(LockKey::Pair(class, _)), Some(told)) = (key, told) else {
        return false;
    };
    if !matches!(told.stage, Stage::Waiting(_)) {
        return false;
    }
    let mut awaited = told.lock.iter().chain(&told.also);
    // What it waits for besides may not fit its query, which is hidden from those who may not see its start either.
    let may_wait_for_more = || {
        (told.more || row.backend_start.is_none())
            && row.pid.is_some_and(|pid| markers.contains(&(pid, class)))
    };
    awaited.any(|lock| lock.key.queue_class() == class) || may_wait_for_more()
}

/// A pglock session that waits between two tries, once for each lock that it did not get while the rows were read.
fn waiting_views(row: &Row, locks: &[LockView]) -> Vec<LockView> {
    let Some(told) = told(row) else {
        return Vec::new();
    };
    let Stage::Waiting(mode) = told.stage else {
        return Vec::new();
    };
    let since = match told.since {
        Some(Since::Waiting(since)) => believable(since, row),
        Some(Since::Held(_)) | None => None,
    }
    .or(row.query_start);
    let awaited = told.lock.iter().map(|lock| (lock, told.slots));
    let awaited = awaited.chain(told.also.iter().map(|lock| (lock, None)));
    let mut seen = HashSet::new();
    let awaited = awaited.filter(|(lock, _)| seen.insert(lock.key));
    let waiting = awaited.filter_map(|(lock, slots)| {
        let same_lock = |held: &&LockView| {
            let key = if slots.is_some() {
                held.lock_key
            } else {
                held.key
            };
            key == lock.key && held.database == row.database
        };
        if locks
            .iter()
            .filter(same_lock)
            .any(|held| held.pid == row.pid)
        {
            return None;
        }
        // Whoever is queued in the server goes before one who tries from outside.
        let blocks = |held: &&LockView| mode == Mode::Exclusive || held.mode == Mode::Exclusive;
        let blockers = locks.iter().filter(same_lock).filter(blocks);
        let mut view = view(row, Some(&told), lock.key.into(), mode, since);
        view.state = State::Waiting;
        view.slots = slots;
        view.blocked_by = blockers.filter_map(|held| held.pid).collect();
        view.blocked_by.sort_unstable();
        view.blocked_by.dedup();
        Some(view)
    });
    waiting.collect()
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
fn view(row: &Row, told: Option<&Told>, key: ShownKey, mode: Mode, since: Option<i64>) -> LockView {
    let named = told
        .zip(key.in_sql())
        .and_then(|(told, key)| Named::by(told, key));
    let (name, slot, lock_key) = named.map_or((None, None, key), |named| {
        (named.lock.name, named.slot, named.lock.key.into())
    });
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
        slot,
        slots: slot.and(told.and_then(|told| told.slots)),
        lock_key,
        state: State::Held,
        mode,
        database: row.database.clone(),
        pid: row.pid,
        user: row.user.clone(),
        host: told.and_then(|told| told.host.clone()),
        wrapper_pid: told.and_then(|told| told.wrapper_pid),
        client: row.client.clone(),
        application_name: row.application_name.clone(),
        backend_start: row.backend_start.map(Timestamp),
        since: since.map(Timestamp),
        seconds,
        command: told.and_then(|told| told.command.clone()),
        program: None,
        blocked_by: Vec::new(),
        prepared: false,
        prepared_transaction: None,
        lock_name: name,
    }
}

/// The lock that a session says a key is of.
struct Named {
    lock: Lock,
    slot: Option<u32>,
}

impl Named {
    /// Anybody can call a session what they like: only what leads to the key is believed.
    fn by(told: &Told, key: LockKey) -> Option<Self> {
        let slot = match told.stage {
            Stage::Holding(slot) if told.slots.is_some() => Some(slot),
            Stage::Holding(_) | Stage::Waiting(_) => None,
        };
        let is_right = |lock: &&Lock| {
            lock.name
                .as_ref()
                .is_none_or(|name| name.key() == Ok(lock.key))
        };
        let first = told.lock.as_ref().filter(is_right);
        if let Some(lock) = first.filter(|lock| lock.key.slot(slot.unwrap_or(0)) == key) {
            let lock = lock.clone();
            return Some(Self { lock, slot });
        }
        let also = told.also.iter().find(|lock| lock.key == key)?;
        let lock = also.clone();
        Some(Self { lock, slot: None })
    }
}
