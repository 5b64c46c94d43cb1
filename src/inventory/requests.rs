//! The locks by which `pglock release` asks holders to let go: they are not shown as locks.

use std::collections::HashSet;

use super::rows::{LockRow, Row};
use crate::key::{LockKey, ShownKey};
use crate::requester;

/// The keys of the requests to holders that are among the same rows.
pub struct Requests(HashSet<LockKey>);

impl Requests {
    pub fn among(rows: &[Row]) -> Self {
        let asked: HashSet<i32> = rows.iter().filter_map(asked).collect();
        let holders = rows
            .iter()
            .filter(|row| row.pid.is_some_and(|pid| asked.contains(&pid)));
        let key = |row: &Row| {
            Some(LockKey::release_request(
                row.application_name.as_ref()?,
                row.pid?,
            ))
        };
        Self(holders.filter_map(key).collect())
    }

    /// Whether the row is such a request.
    pub fn hold(&self, row: &Row) -> bool {
        let key = row.lock.as_ref().map(|lock| lock.key);
        asked(row).is_some()
            && key
                .and_then(ShownKey::in_sql)
                .is_some_and(|key| self.0.contains(&key))
    }
}

/// The backend that is asked, if the row looks like a request.
fn asked(row: &Row) -> Option<i32> {
    requester::told(row.application_name.as_ref()?)?;
    match row.lock.as_ref()? {
        LockRow {
            key: ShownKey::Lock(LockKey::Pair(_, backend_pid)),
            mode,
            granted: true,
            ..
        } if mode == "ShareLock" => Some(*backend_pid),
        _ => None,
    }
}
