//! From the rows of the query to what is shown.

use std::collections::{HashMap, HashSet};

use super::bookkeeping::{is_bookkeeping, markers};
use super::owner::Owners;
use super::requests::Requests;
use super::rows::{LockRow, Row};
use super::view::{LockView, State, Timestamp};
use crate::identity::{Since, Stage, Told};
use crate::key::{Lock, LockKey, LockName, Mode, ShownKey};

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
    share_names(&mut views);
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

/// Names the lock for sessions that do not name it as those do that do, where these agree; by pglock's own rule only, by
/// which nobody finds a name for the key of another lock.
fn share_names(views: &mut [LockView]) {
    let place = |view: &LockView| (view.database.clone(), view.key);
    let mut names: HashMap<_, Option<LockName>> = HashMap::new();
    for view in views.iter().filter(|view| view.lock_key == view.key) {
        let Some(name) = view.lock_name.as_ref().filter(|name| name.rule.is_own()) else {
            continue;
        };
        let known = names
            .entry(place(view))
            .or_insert_with(|| Some(name.clone()));
        if known.as_ref() != Some(name) {
            *known = None;
        }
    }
    if names.is_empty() {
        return;
    }
    let unnamed = |view: &&mut LockView| view.lock_name.is_none() && view.lock_key == view.key;
    for view in views.iter_mut().filter(unnamed) {
        if let Some(Some(name)) = names.get(&place(view)) {
            view.call(name.clone());
        }
    }
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
    let mut view = LockView {
        namespace: None,
        name: None,
        key,
        form: key.form(),
        slot,
        slots: slot.and(told.and_then(|told| told.slots)),
        scheme: None,
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
        lock_name: None,
    };
    if let Some(name) = name {
        view.call(name);
    }
    view
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
