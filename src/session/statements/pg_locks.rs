//! A key as `pg_locks` shows it (PostgreSQL documentation, 54.12 "`pg_locks`").

use crate::key::LockKey;

/// The condition that a row `l` of `pg_locks` is of one of these keys.
pub fn is_any_key(keys: impl IntoIterator<Item = LockKey>) -> String {
    let conditions: Vec<String> = keys.into_iter().map(is_key).collect();
    format!("({})", conditions.join(" OR "))
}

/// The condition that a row `l` of `pg_locks` is of this key.
pub fn is_key(key: LockKey) -> String {
    let (classid, objid, objsubid) = match key {
        LockKey::Bigint(key) => {
            let [high, low] = halves(key);
            (high, low, 1)
        }
        LockKey::Pair(first, second) => (first.cast_unsigned(), second.cast_unsigned(), 2),
    };
    format!("l.classid = {classid}::oid AND l.objid = {objid}::oid AND l.objsubid = {objsubid}")
}

/// The two halves of a bigint key, unsigned.
pub fn halves(key: i64) -> [u32; 2] {
    let bytes = key.to_be_bytes();
    [0, 4].map(|at| u32::from_be_bytes(std::array::from_fn(|byte| bytes[at + byte])))
}
