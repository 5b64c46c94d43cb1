//! PostgreSQL's advisory lock functions, called for one lock.

use crate::key::{LockKey, Mode};
use crate::session::{Request, Scope};

/// The calls for one lock in SQL, and the catalog's own entry of the first.
pub struct LockCalls {
    pub try_lock: String,
    /// Frees a session's lock; a transaction's goes with it.
    pub unlock: String,
    oid: u32,
    /// The name of its C function.
    source: String,
}

impl LockCalls {
    /// The object IDs are fixed (PostgreSQL's `pg_proc.dat`), and each function's source is its C name.
    pub fn of(request: &Request) -> Self {
        let (arguments, form) = match request.identity.lock.key {
            LockKey::Bigint(key) => (format!("'{key}'::pg_catalog.int8"), "int8"),
            LockKey::Pair(first, second) => (
                format!("'{first}'::pg_catalog.int4, '{second}'::pg_catalog.int4"),
                "int4",
            ),
        };
        let (scope, oids) = match request.scope {
            Scope::Session => ("advisory", [[2882, 2883], [2888, 2889]]),
            Scope::Transaction => ("advisory_xact", [[3091, 3092], [3095, 3096]]),
        };
        let oids = match request.identity.lock.key {
            LockKey::Bigint(_) => oids[0],
            LockKey::Pair(..) => oids[1],
        };
        let (suffix, oid) = match request.mode {
            Mode::Exclusive => ("", oids[0]),
            Mode::Shared => ("_shared", oids[1]),
        };
        Self {
            try_lock: format!("pg_catalog.pg_try_{scope}_lock{suffix}({arguments})"),
            unlock: format!("pg_catalog.pg_advisory_unlock{suffix}({arguments})"),
            oid,
            source: format!("pg_try_{scope}_lock{suffix}_{form}"),
        }
    }

    /// Whether the catalog says that the function is the built-in one; asked by function call it costs a tenth
    /// of what a query of `pg_proc` does in a fresh session. It may quote what needs no quotes
    /// (`quote_all_identifiers`).
    pub fn are_genuine(&self) -> String {
        let Self { oid, source, .. } = self;
        format!(
            "pg_catalog.textlike(pg_catalog.replace(pg_catalog.pg_get_functiondef({oid}), '\"', ''), \
             '%LANGUAGE internal%$function${source}$function$%')"
        )
    }
}
