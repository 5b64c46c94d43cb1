//! The query behind `list`, and its rows as the server gave them.

use tokio_postgres::SimpleQueryRow;

use crate::key::{LockKey, ShownKey};
#[cfg(test)]
use crate::session::halves;
use crate::session::{Session, is_any_key};

/// Which locks to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Who holds one of these keys in the current database, and every holder who speaks of a slot.
    Holders(Vec<LockKey>),
    CurrentDatabase,
    AllDatabases,
}

/// One row: a lock in `pg_locks`, or a pglock session that waits between two tries and so has none there.
#[derive(Debug, Default)]
pub struct Row {
    /// `None` for a waiting pglock session.
    pub lock: Option<LockRow>,
    pub pid: Option<i32>,
    pub database: Option<String>,
    pub user: Option<String>,
    pub application_name: Option<String>,
    pub client: Option<String>,
    /// Times are microseconds since 1970; `None` where the role may not see them.
    pub backend_start: Option<i64>,
    pub query_start: Option<i64>,
    /// Only of sessions that call themselves pglock's, where the role may see it.
    pub query: Option<String>,
    pub now: i64,
}

/// What `pg_locks` says.
#[derive(Debug)]
pub struct LockRow {
    pub key: ShownKey,
    pub mode: String,
    pub granted: bool,
    pub wait_start: Option<i64>,
    pub blocked_by: Vec<i32>,
    /// The identifier of the prepared transaction that owns the lock, and when it was prepared.
    pub prepared_transaction: Option<String>,
    pub prepared: Option<i64>,
}

/// What stands in braces is filled in. A `pg_locks` row shows the two halves of a key as unsigned numbers, and
/// `objsubid` tells its form (PostgreSQL documentation, 54.12 "`pg_locks`"), or is the tag of an extension. A prepared transaction has no pid
/// there; the row of its transaction ID leads to it.
const QUERY: &str = "\
    WITH activity AS MATERIALIZED ( \
        SELECT pid, datname, usename, application_name, backend_start, query_start, \
            CASE WHEN client_port = -1 THEN '[local]' ELSE host(client_addr) || ':' || client_port END AS client, \
            CASE WHEN application_name LIKE 'pglock%' THEN query END AS query \
        FROM pg_stat_activity), \
    locks AS MATERIALIZED ( \
        SELECT * FROM pg_locks \
        WHERE locktype = 'advisory' OR (locktype = 'transactionid' AND pid IS NULL)), \
    prepared AS ( \
        SELECT l.virtualtransaction, p.gid, p.owner, p.prepared \
        FROM locks l JOIN pg_prepared_xacts p ON p.transaction = l.transactionid \
        WHERE l.locktype = 'transactionid'), \
    found AS ( \
        SELECT l.classid, l.objid, l.objsubid, l.mode, l.granted, l.pid, d.datname AS database, \
            coalesce(a.usename, p.owner) AS usename, a.application_name, a.client, \
            a.backend_start, a.query_start, a.query, {wait_start} AS wait_start, \
            CASE WHEN NOT l.granted THEN array_to_string(pg_blocking_pids(l.pid), ',') END AS blocked_by, \
            p.gid, p.prepared \
        FROM locks l \
        LEFT JOIN pg_database d ON d.oid = l.database \
        LEFT JOIN activity a ON a.pid = l.pid \
        LEFT JOIN prepared p ON l.pid IS NULL AND p.virtualtransaction = l.virtualtransaction \
        WHERE l.locktype = 'advisory' AND {locks_in_scope} \
        UNION ALL \
        SELECT NULL, NULL, NULL, NULL, NULL, a.pid, a.datname, \
            a.usename, a.application_name, a.client, \
            a.backend_start, a.query_start, a.query, NULL, NULL, NULL, NULL \
        FROM activity a \
        WHERE a.application_name ~ '^pglock[?~] ' AND {sessions_in_scope}) \
    SELECT standby, classid, objid, objsubid, mode, granted, pid, database, usename, application_name, client, query, \
        blocked_by, gid, {times} \
    FROM (SELECT pg_is_in_recovery() AS standby) AS server LEFT JOIN found ON true";

/// The columns that are times, in the query's text and in [`Row`]s as microseconds since 1970.
const TIMES: [&str; 5] = [
    "backend_start",
    "query_start",
    "wait_start",
    "prepared",
    "now",
];

/// Reads the rows in one round trip; and whether the server is a standby, which knows none of the primary's locks.
pub async fn read(session: &mut Session, scope: &Scope) -> anyhow::Result<(Vec<Row>, bool)> {
    let answer = session.query(&sql(scope)).await?;
    let is_standby = answer.iter().any(|row| row.get("standby") == Some("t"));
    let rows = answer.iter().map(row);
    // Where nothing was found there is one row of nothing.
    let found = rows.filter(|row| row.lock.is_some() || row.pid.is_some());
    Ok((found.collect(), is_standby))
}

fn sql(scope: &Scope) -> String {
    let times = TIMES.map(|name| {
        let column = if name == "now" {
            "clock_timestamp()"
        } else {
            name
        };
        format!("(extract(epoch FROM {column}) * 1000000)::int8 AS {name}")
    });
    let current = "(SELECT oid FROM pg_database WHERE datname = current_database())";
    let locks_in_scope = match scope {
        Scope::AllDatabases => "true".to_owned(),
        Scope::CurrentDatabase => format!("l.database = {current}"),
        Scope::Holders(keys) => {
            let is_key = is_any_key(keys.iter().copied());
            let has_slot = "a.application_name ~ '^pglock: .*#[0-9]+/[0-9]+ \\('";
            format!("l.database = {current} AND l.granted AND ({is_key} OR {has_slot})")
        }
    };
    let sessions_in_scope = match scope {
        Scope::AllDatabases => "true",
        Scope::CurrentDatabase => "a.datname = current_database()",
        Scope::Holders(_) => "false",
    };
    QUERY
        .replace("{times}", &times.join(", "))
        .replace("{wait_start}", WAIT_START)
        .replace("{locks_in_scope}", &locks_in_scope)
        .replace("{sessions_in_scope}", sessions_in_scope)
}

/// `pg_locks.waitstart` came with PostgreSQL 14; asked for by name it would fail before.
const WAIT_START: &str =
    "CASE WHEN NOT l.granted THEN (to_jsonb(l) ->> 'waitstart')::timestamptz END";

fn key(classid: u32, objid: u32, objsubid: u16) -> ShownKey {
    let (first, second) = (classid.cast_signed(), objid.cast_signed());
    match objsubid {
        1 => LockKey::Bigint((i64::from(first) << 32) | i64::from(objid)).into(),
        2 => LockKey::Pair(first, second).into(),
        tag => ShownKey::Extension(classid, objid, tag),
    }
}

fn row(row: &SimpleQueryRow) -> Row {
    let text = |name| row.try_get(name).ok().flatten();
    let owned = |name| text(name).map(str::to_owned);
    let time = |name| text(name).and_then(|time| time.parse::<i64>().ok());
    let number = |name| text(name).and_then(|number| number.parse::<u32>().ok());
    let key = || {
        let objsubid = text("objsubid")?.parse().ok()?;
        Some(key(number("classid")?, number("objid")?, objsubid))
    };
    let lock = key().map(|key| LockRow {
        key,
        mode: owned("mode").unwrap_or_default(),
        granted: text("granted") == Some("t"),
        wait_start: time("wait_start"),
        blocked_by: text("blocked_by")
            .unwrap_or_default()
            .split(',')
            .filter_map(|pid| pid.parse().ok())
            .collect(),
        prepared_transaction: owned("gid"),
        prepared: time("prepared"),
    });
    Row {
        lock,
        pid: text("pid").and_then(|pid| pid.parse().ok()),
        database: owned("database"),
        user: owned("usename"),
        application_name: owned("application_name"),
        client: owned("client"),
        backend_start: time("backend_start"),
        query_start: time("query_start"),
        query: owned("query"),
        now: time("now").unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_survive_their_way_through_unsigned_halves() {
        for wanted in [0, -1, 42, i64::MIN, i64::MAX, 1 << 32, -(1 << 32)] {
            let [high, low] = halves(wanted);
            assert_eq!(key(high, low, 1), LockKey::Bigint(wanted));
        }
        assert_eq!(key(u32::MAX, 5, 2), LockKey::Pair(-1, 5));
        let of_timescale = key(u32::MAX, 5, 29_749);
        assert_eq!(of_timescale, ShownKey::Extension(u32::MAX, 5, 29_749));
        assert_eq!(of_timescale.to_string(), "4294967295,5/29749");
        assert_eq!(of_timescale.form(), "extension");
        assert_eq!(key(0, 42, 2), LockKey::Pair(0, 42));
    }
}
