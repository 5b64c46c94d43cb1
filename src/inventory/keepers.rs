//! Whose key it is, from what the current database holds: tables of job queues, and replication slots.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use tokio::time::timeout;
use tokio_postgres::SimpleQueryRow;

use super::owner::Owner;
use super::view::LockView;
use crate::catalogue::Evidence;
use crate::key::{LockKey, ShownKey};
use crate::session::Session;

/// How long both questions together may take; without an answer the owners stay unknown.
const DEADLINE: Duration = Duration::from_secs(2);

/// Software that keeps what it locks in a table.
struct Keeper {
    title: &'static str,
    table: &'static str,
    /// What it has among its columns, each with its type; one may be of several.
    columns: &'static str,
    evidence: Evidence,
    /// The keys, in SQL; the table stands in braces.
    keys: &'static str,
}

/// Tables that may be large are asked for no more than the rows that may be at work.
const KEEPERS: [Keeper; 4] = [
    Keeper {
        title: "GoodJob",
        table: "good_jobs",
        columns: "{id:uuid,active_job_id:uuid,finished_at:timestamp,finished_at:timestamptz}",
        evidence: Evidence::Sure,
        keys: "SELECT ('x' || left(md5('good_jobs-' || id::text), 16))::bit(64)::int8 \
            FROM (SELECT unnest(ARRAY[id, active_job_id]) AS id \
                FROM (SELECT id, active_job_id FROM {table} WHERE finished_at IS NULL LIMIT 10000) AS jobs) AS ids",
    },
    Keeper {
        title: "GoodJob",
        table: "good_job_processes",
        columns: "{id:uuid}",
        evidence: Evidence::Sure,
        keys: "SELECT ('x' || left(md5('good_job_processes-' || id::text), 16))::bit(64)::int8 FROM {table}",
    },
    Keeper {
        title: "Que",
        table: "que_jobs",
        columns: "{id:int8}",
        // Anybody may take a small number.
        evidence: Evidence::Maybe,
        keys: "SELECT id FROM {table} WHERE id IN (SELECT key FROM keys)",
    },
    Keeper {
        title: "pgmq",
        table: "meta",
        columns: "{queue_name:text,queue_name:varchar,is_partitioned:bool,is_unlogged:bool}",
        evidence: Evidence::Sure,
        keys: "SELECT hashtext('pgmq.queue_' || queue_name::text)::int8 FROM {table}",
    },
];

/// The keepers whose table this role may read and nobody is about to change, and the keys of Electric's slots.
///
/// Anybody may give a table such a name, and reading it must run nothing of theirs as this role. So table and schema
/// belong to this role or to a superuser: whoever else could change the table between this question and the next. And it
/// is an ordinary table in which neither columns, row security and parents nor what the planner looks at (indexes, constraints,
/// statistics) lead to functions, operators or types that did not come with PostgreSQL, which alone `pg_depend` tells.
const PRESENT: &str = "\
    SELECT current_database() AS database, k.keeper, format('%I.%I', n.nspname, c.relname) AS place, NULL AS key \
    FROM (VALUES {keepers}) AS k (keeper, name, columns) \
    JOIN pg_catalog.pg_class c ON c.relname = k.name::name \
        AND c.relkind = 'r' AND c.relpersistence <> 't' AND NOT c.relispartition AND NOT c.relrowsecurity \
    JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
    WHERE has_schema_privilege(n.oid, 'USAGE') AND has_table_privilege(c.oid, 'SELECT') \
    AND NOT EXISTS ( \
        SELECT FROM pg_catalog.pg_roles o \
        LEFT JOIN pg_catalog.pg_database d ON o.rolname = 'pg_database_owner' AND d.datname = current_database() \
        LEFT JOIN pg_catalog.pg_roles b ON b.oid = d.datdba \
        WHERE o.oid IN (c.relowner, n.nspowner) \
        AND NOT coalesce(b.rolsuper, o.rolsuper) AND coalesce(b.rolname, o.rolname) <> current_user) \
    AND (SELECT count(DISTINCT split_part(wanted, ':', 1)) FROM unnest(k.columns::text[]) AS wanted) = ( \
        SELECT count(*) FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_type t ON t.oid = a.atttypid \
        WHERE a.attrelid = c.oid AND a.attnum > 0 AND a.attgenerated <> 'v' \
        AND t.typnamespace = 'pg_catalog'::regnamespace \
        AND a.attname || ':' || t.typname = ANY (k.columns::text[])) \
    AND NOT EXISTS ( \
        SELECT FROM ( \
            SELECT 'pg_class'::regclass::oid, indexrelid FROM pg_catalog.pg_index WHERE indrelid = c.oid \
            UNION ALL \
            SELECT 'pg_constraint'::regclass, oid FROM pg_catalog.pg_constraint WHERE conrelid = c.oid \
            UNION ALL \
            SELECT 'pg_statistic_ext'::regclass, oid FROM pg_catalog.pg_statistic_ext WHERE stxrelid = c.oid \
        ) AS planned (classid, objid) JOIN pg_catalog.pg_depend d USING (classid, objid) \
        WHERE d.refclassid IN ('pg_proc'::regclass, 'pg_operator'::regclass, 'pg_type'::regclass)) \
    AND NOT EXISTS ( \
        SELECT FROM pg_catalog.pg_locks l \
        WHERE l.locktype = 'relation' AND l.relation = c.oid AND l.mode = 'AccessExclusiveLock') \
    UNION ALL \
    SELECT current_database(), NULL, NULL, hashtext(slot_name::text)::text FROM pg_catalog.pg_replication_slots \
    WHERE starts_with(slot_name::text, 'electric_slot_') AND database = current_database()";

/// Even so a table may be locked by then, or a look at it take long: in that case nothing is known.
const BRIEFLY: &str = "SELECT pg_catalog.set_config('lock_timeout', '200ms', true), \
    pg_catalog.set_config('statement_timeout', '1s', true)";

/// Asks the current database for the owners of keys that nothing is known of for certain; without such keys it asks
/// nothing.
///
/// What the role may not read, or what takes too long, stays unknown.
pub async fn name_owners(session: &mut Session, views: &mut [LockView]) {
    let unknown = views
        .iter()
        .filter(|view| is_foreign(view) && !is_known(view));
    let keys = unknown.filter_map(|view| match view.key {
        ShownKey::Lock(LockKey::Bigint(key)) => Some(key),
        ShownKey::Lock(LockKey::Pair(..)) | ShownKey::Extension(..) => None,
    });
    let keys: BTreeSet<i64> = keys.collect();
    if keys.is_empty() {
        return;
    }
    let Ok(Ok(found)) = timeout(DEADLINE, ask(session, &keys)).await else {
        return;
    };
    for view in views.iter_mut().filter(|view| is_foreign(view)) {
        let ShownKey::Lock(LockKey::Bigint(key)) = view.key else {
            continue;
        };
        if view.database != found.database {
            continue;
        }
        for (title, evidence) in found.owners.get(&key).into_iter().flatten() {
            Owner::add(&mut view.program, title, *evidence);
        }
    }
}

fn is_foreign(view: &LockView) -> bool {
    view.wrapper_pid.is_none()
}

fn is_known(view: &LockView) -> bool {
    view.program.as_ref().is_some_and(Owner::is_sure)
}

/// What the current database says of keys.
#[derive(Default)]
struct Found {
    database: Option<String>,
    owners: HashMap<i64, Vec<(&'static str, Evidence)>>,
}

impl Found {
    fn add(&mut self, key: i64, title: &'static str, evidence: Evidence) {
        self.owners.entry(key).or_default().push((title, evidence));
    }
}

/// One question for what there is, and if there is a table another for its keys.
async fn ask(session: &mut Session, keys: &BTreeSet<i64>) -> anyhow::Result<Found> {
    let mut found = Found::default();
    let mut questions = Vec::new();
    for row in session.query(&present()).await? {
        found.database = row.try_get("database").ok().flatten().map(str::to_owned);
        match number(&row, "key") {
            Some(key) => found.add(key, "Electric", Evidence::Sure),
            None => questions.extend(question(&row)),
        }
    }
    if questions.is_empty() {
        return Ok(found);
    }
    let keys: Vec<String> = keys.iter().map(ToString::to_string).collect();
    let statement = format!(
        "{BRIEFLY}; WITH keys AS MATERIALIZED (SELECT unnest('{{{}}}'::int8[]) AS key) {}",
        keys.join(","),
        questions.join(" UNION ALL ")
    );
    // Once more would take as long once more.
    for row in session.query_once(&statement).await? {
        let keeper = number(&row, "keeper").and_then(|at| KEEPERS.get(usize::try_from(at).ok()?));
        if let Some((keeper, key)) = keeper.zip(number(&row, "key")) {
            found.add(key, keeper.title, keeper.evidence);
        }
    }
    Ok(found)
}

fn present() -> String {
    let keepers = KEEPERS
        .iter()
        .enumerate()
        .map(|(at, keeper)| format!("({at}, '{}', '{}')", keeper.table, keeper.columns));
    PRESENT.replace("{keepers}", &keepers.collect::<Vec<_>>().join(", "))
}

/// For the keys of one table; its name comes quoted.
fn question(row: &SimpleQueryRow) -> Option<String> {
    let at = number(row, "keeper")?;
    let keeper = KEEPERS.get(usize::try_from(at).ok()?)?;
    let keys = keeper
        .keys
        .replace("{table}", &format!("ONLY {}", row.try_get("place").ok()??));
    Some(format!(
        "SELECT {at} AS keeper, key FROM keys WHERE key IN ({keys})"
    ))
}

fn number(row: &SimpleQueryRow, column: &str) -> Option<i64> {
    row.try_get(column).ok()??.parse().ok()
}
