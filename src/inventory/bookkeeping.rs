//! The locks in which a queue stands: they are not shown as locks.

use std::collections::HashSet;

use super::rows::{LockRow, Row};
use crate::identity::{Stage, Told};
use crate::key::{LockKey, ShownKey};

/// The pids and classes of the markers that sessions hold, in queues or not.
pub fn markers(rows: &[Row]) -> HashSet<(i32, i32)> {
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
pub fn is_bookkeeping(
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
