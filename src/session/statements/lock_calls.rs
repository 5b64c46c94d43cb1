//! PostgreSQL's advisory lock functions, called for some locks together.

use super::BACKEND;
use super::pg_locks::is_key;
use crate::key::{LockKey, Mode};
use crate::session::{Request, Scope};

/// The calls in SQL, and what the catalog must say of the functions that take a lock.
pub struct LockCalls<'a> {
    keys: &'a [LockKey],
    mode: Mode,
    scope: Scope,
}

impl<'a> LockCalls<'a> {
    /// For these keys, in this order.
    pub fn of(request: &Request, keys: &'a [LockKey]) -> Self {
        Self {
            keys,
            mode: request.mode,
            scope: request.scope,
        }
    }

    /// True if all are taken, and otherwise none is; in a transaction its end gives back what was.
    pub fn take(&self) -> String {
        let calls: Vec<String> = self.keys.iter().map(|key| self.try_lock(*key)).collect();
        if calls.len() == 1 || self.scope == Scope::Transaction {
            return calls.join(" AND ");
        }
        let failures = calls.iter().enumerate().map(|(at, call)| {
            let undone = match &self.keys[..at] {
                [] => "false".to_owned(),
                taken => format!("NOT ({})", self.each(taken, Self::unlock)),
            };
            format!("WHEN NOT {call} THEN {undone}")
        });
        let failures: Vec<String> = failures.collect();
        format!("CASE {} ELSE true END", failures.join(" "))
    }

    /// True if all could be taken once more.
    pub fn take_again(&self) -> String {
        self.each(self.keys, Self::try_lock)
    }

    /// True if all were held by the session, each of which is given back once.
    pub fn give_back(&self) -> String {
        self.each(self.keys, Self::unlock)
    }

    /// True if all were held by the session and still are: each that is held twice is given back once and taken again.
    pub fn renew(&self) -> String {
        self.each(self.keys, |calls, key| {
            let (unlock, try_lock) = (calls.unlock(key), calls.try_lock(key));
            format!("CASE WHEN {unlock} THEN {try_lock} END")
        })
    }

    /// Gives back whatever the session holds of them, as a message may have left it that was cancelled: each at most
    /// twice.
    pub fn put_back(&self) -> String {
        let put_back = self.keys.iter().map(|key| {
            let (unlock, is_key) = (self.unlock(*key), is_key(*key));
            format!(
                "SELECT {unlock} FROM pg_catalog.pg_locks l \
                 WHERE l.locktype = 'advisory' AND l.pid = {BACKEND} AND {is_key}"
            )
        });
        let once = put_back.collect::<Vec<_>>().join("; ");
        format!("{once}; {once}")
    }

    fn each(&self, keys: &[LockKey], call: impl Fn(&Self, LockKey) -> String) -> String {
        let calls: Vec<String> = keys.iter().map(|key| call(self, *key)).collect();
        format!("({})", calls.join(" AND "))
    }

    fn try_lock(&self, key: LockKey) -> String {
        let (scope, suffix, arguments) = (self.kind(), self.suffix(), arguments(key));
        format!("pg_catalog.pg_try_{scope}_lock{suffix}({arguments})")
    }

    fn unlock(&self, key: LockKey) -> String {
        let (suffix, arguments) = (self.suffix(), arguments(key));
        format!("pg_catalog.pg_advisory_unlock{suffix}({arguments})")
    }

    /// Whether the catalog says that the functions are the built-in ones; asked by function call it costs a tenth
    /// of what a query of `pg_proc` does in a fresh session. It may quote what needs no quotes
    /// (`quote_all_identifiers`). The object IDs are fixed (PostgreSQL's `pg_proc.dat`), and each function's source
    /// is its C name.
    pub fn are_genuine(&self) -> String {
        let (scope, suffix) = (self.kind(), self.suffix());
        let mut functions: Vec<(u32, &str)> =
            self.keys.iter().map(|key| self.function(*key)).collect();
        functions.sort_unstable();
        functions.dedup();
        let genuine = functions.iter().map(|(oid, form)| {
            format!(
                "pg_catalog.textlike(pg_catalog.replace(pg_catalog.pg_get_functiondef({oid}), '\"', ''), \
                 '%LANGUAGE internal%$function$pg_try_{scope}_lock{suffix}_{form}$function$%')"
            )
        });
        format!("({})", genuine.collect::<Vec<_>>().join(" AND "))
    }

    fn function(&self, key: LockKey) -> (u32, &'static str) {
        let [bigint, pair] = match (self.scope, self.mode) {
            (Scope::Session, Mode::Exclusive) => [2882, 2888],
            (Scope::Session, Mode::Shared) => [2883, 2889],
            (Scope::Transaction, Mode::Exclusive) => [3091, 3095],
            (Scope::Transaction, Mode::Shared) => [3092, 3096],
        };
        match key {
            LockKey::Bigint(_) => (bigint, "int8"),
            LockKey::Pair(..) => (pair, "int4"),
        }
    }

    fn kind(&self) -> &'static str {
        match self.scope {
            Scope::Session => "advisory",
            Scope::Transaction => "advisory_xact",
        }
    }

    fn suffix(&self) -> &'static str {
        match self.mode {
            Mode::Exclusive => "",
            Mode::Shared => "_shared",
        }
    }
}

/// One of two expressions: whether another session holds that lock, in whichever mode. Leaves nothing, but needs room in
/// the server's lock table.
pub fn if_taken(key: LockKey, taken: &str, free: &str) -> String {
    let arguments = arguments(key);
    format!(
        "CASE WHEN pg_catalog.pg_try_advisory_lock({arguments}) \
             THEN CASE WHEN pg_catalog.pg_advisory_unlock({arguments}) THEN {free} END ELSE {taken} END"
    )
}

/// A cast costs the server as much as the lock itself: only numbers that PostgreSQL would take for those of another
/// type need one.
fn arguments(key: LockKey) -> String {
    match key {
        LockKey::Bigint(key) if key == i64::MIN || i32::try_from(key).is_ok() => {
            format!("'{key}'::pg_catalog.int8")
        }
        LockKey::Bigint(key) => key.to_string(),
        LockKey::Pair(first, second) if [first, second].contains(&i32::MIN) => {
            format!("'{first}'::pg_catalog.int4, '{second}'::pg_catalog.int4")
        }
        LockKey::Pair(first, second) => format!("{first}, {second}"),
    }
}
