//! `list` says whose locks it shows, and never with certainty what it cannot know.

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::thread;

use postgres::Client;
use serde_json::Value;

use crate::support::look_alike::{answer, error, serve_each};
use crate::support::{Pglock, Server};

#[test]
fn keys_of_other_software_are_named_and_those_of_anybody_are_not() {
    let server = Server::shared();
    let database = server.database();
    let migrate = key(&["--as", "golang-migrate", &database]);
    let rails = key(&["--as", "rails-migrations", &database]);
    let rails_elsewhere = key(&["--as", "rails-migrations", "elsewhere"]);
    let mut session = server.client_as(&database, "postgres");
    for key in [
        "72707369",
        &migrate,
        &rails,
        &rails_elsewhere,
        "1",
        "4711",
        "0,42",
        "16185446,16384",
        "-605618483,-118112257",
        "77433833903597",
    ] {
        hold(&mut session, key);
    }
    let _ours = Pglock::new(server).env("PGDATABASE", &database).hold("x");

    let programs = programs(&database, &[]);
    let known = |key: &str| programs[key].as_deref();
    assert_eq!(known("72707369"), Some("Prisma Migrate"));
    assert_eq!(known(&migrate), Some("golang-migrate"));
    assert_eq!(known(&rails), Some("Rails migrations"));
    assert_eq!(known(&rails_elsewhere), None);
    assert_eq!(known("1"), Some("possibly Airflow, Coder or SpiceDB"));
    assert_eq!(known("4711"), None);
    assert_eq!(known("0,42"), Some("possibly Pulp"));
    assert_eq!(known("16185446,16384"), Some("pg_repack"));
    assert_eq!(
        known("-605618483,-118112257"),
        Some("possibly DistributedLock (my_lock)")
    );
    assert_eq!(known("77433833903597"), Some("Flyway"));
    assert_eq!(known(key(&["x"]).as_str()), None);

    let table = Pglock::new(server)
        .env("PGDATABASE", &database)
        .arg("list")
        .run();
    table
        .assert_code(0)
        .assert_stderr("")
        .assert_stdout_has("(Prisma Migrate)");
}

#[test]
fn jobs_and_queues_are_looked_up_where_the_role_may_read_them() {
    let server = Server::shared();
    let database = server.database();
    let mut session = server.client_as(&database, "postgres");
    session
        .batch_execute(
            "CREATE TABLE good_jobs (id uuid, active_job_id uuid, finished_at timestamp);
             INSERT INTO good_jobs VALUES
                ('00000000-0000-0000-0000-000000000001', '00000000-0000-0000-0000-000000000002', NULL),
                ('00000000-0000-0000-0000-000000000003', NULL, now());
             CREATE SCHEMA jobs;
             CREATE TABLE jobs.que_jobs (id bigint);
             INSERT INTO jobs.que_jobs VALUES (17);
             CREATE SCHEMA pgmq;
             CREATE TABLE pgmq.meta (queue_name text, is_partitioned bool, is_unlogged bool);
             INSERT INTO pgmq.meta VALUES ('my_queue', false, false)",
        )
        .unwrap();
    let job = |id: &str| {
        key(&[
            "--as",
            "good-job",
            &format!("00000000-0000-0000-0000-00000000000{id}"),
        ])
    };
    let expected = [
        (job("1"), Some("GoodJob")),
        (job("2"), Some("GoodJob")),
        (job("3"), None),
        ("17".to_owned(), Some("possibly Que")),
        ("18".to_owned(), None),
        ("191642509".to_owned(), Some("pgmq")),
    ];
    for (key, _) in &expected {
        hold(&mut session, key);
    }
    let stranger = server.role("");
    for options in [&[][..], &["-a"]] {
        let programs = programs(&database, options);
        for (key, program) in &expected {
            assert_eq!(programs[key].as_deref(), *program, "{key}");
        }
    }
    let unknown = programs(&database, &["-U", &stranger]);
    assert!(unknown.values().all(Option::is_none), "{unknown:?}");

    // Nobody waits for a table that a migration has locked.
    let mut migration = server.client_as(&database, "postgres");
    migration
        .batch_execute("BEGIN; LOCK TABLE good_jobs IN ACCESS EXCLUSIVE MODE")
        .unwrap();
    let programs = programs(&database, &[]);
    assert_eq!(programs[&expected[0].0], None);
    assert_eq!(programs["191642509"].as_deref(), Some("pgmq"));
}

#[test]
fn no_table_makes_list_run_the_code_of_its_owner() {
    let server = Server::shared();
    let database = server.database();
    let (owner, reader) = (server.role(""), server.role(""));
    let mut session = server.client_as(&database, "postgres");
    session
        .batch_execute(&format!(
            "CREATE FUNCTION ran(what text) RETURNS bool LANGUAGE sql IMMUTABLE AS
                $$ SELECT nextval('public.' || $1) > 0 $$;
             CREATE SEQUENCE a_cast; CREATE SEQUENCE a_policy; CREATE SEQUENCE an_index_of_a_child;
             CREATE SEQUENCE an_index; CREATE SEQUENCE a_view; CREATE SEQUENCE an_index_of_a_partition;
             GRANT ALL ON ALL SEQUENCES IN SCHEMA public TO PUBLIC;
             CREATE SCHEMA a AUTHORIZATION {owner}; CREATE SCHEMA b AUTHORIZATION {owner};
             CREATE SCHEMA c AUTHORIZATION {owner}; CREATE SCHEMA d AUTHORIZATION {owner};
             CREATE SCHEMA e AUTHORIZATION {owner}; CREATE SCHEMA f AUTHORIZATION {owner};
             GRANT USAGE ON SCHEMA a, b, c, d, e, f TO PUBLIC"
        ))
        .unwrap();
    let columns = "(id uuid, active_job_id uuid, finished_at timestamp)";
    let row = "VALUES (gen_random_uuid(), gen_random_uuid(), NULL)";
    let traps = [
        "CREATE TYPE a.uuid AS (id int);
         CREATE FUNCTION a.told(a.uuid) RETURNS text LANGUAGE sql AS $$ SELECT public.ran('a_cast')::text $$;
         CREATE CAST (a.uuid AS text) WITH FUNCTION a.told(a.uuid);
         CREATE TABLE a.good_jobs (id a.uuid, active_job_id a.uuid, finished_at timestamp);
         INSERT INTO a.good_jobs VALUES (ROW(1), ROW(1), NULL)",
        &format!(
            "CREATE TABLE b.good_jobs {columns}; INSERT INTO b.good_jobs {row};
             ALTER TABLE b.good_jobs ENABLE ROW LEVEL SECURITY;
             CREATE POLICY p ON b.good_jobs USING (public.ran('a_policy'))"
        ),
        &format!(
            "CREATE TABLE c.good_jobs {columns}; INSERT INTO c.good_jobs {row};
             CREATE TABLE c.child () INHERITS (c.good_jobs);
             CREATE INDEX ON c.child ((1)) WHERE public.ran('an_index_of_a_child')"
        ),
        &format!(
            "CREATE TABLE d.good_jobs {columns}; INSERT INTO d.good_jobs {row};
             CREATE INDEX ON d.good_jobs ((1)) WHERE public.ran('an_index')"
        ),
        &format!(
            "CREATE TABLE e.jobs {columns}; INSERT INTO e.jobs {row};
             CREATE VIEW e.good_jobs AS SELECT * FROM e.jobs WHERE public.ran('a_view')"
        ),
        &format!(
            "CREATE TABLE f.good_jobs {columns} PARTITION BY LIST (finished_at);
             CREATE TABLE f.all PARTITION OF f.good_jobs DEFAULT; INSERT INTO f.good_jobs {row};
             CREATE INDEX ON f.all ((1)) WHERE public.ran('an_index_of_a_partition')"
        ),
    ];
    let mut builder = server.client_as(&database, &owner);
    for trap in traps {
        builder.batch_execute(trap).unwrap();
    }
    builder
        .batch_execute(
            "GRANT SELECT ON a.good_jobs, b.good_jobs, c.good_jobs, d.good_jobs, e.good_jobs, f.good_jobs TO PUBLIC",
        )
        .unwrap();
    // A sequence keeps what a transaction that fails would take back.
    session
        .batch_execute("SELECT setval(oid, 1, false) FROM pg_class WHERE relkind = 'S'")
        .unwrap();
    hold(&mut session, "4815162342");
    for role in ["postgres", &reader] {
        programs(&database, &["-U", role]);
    }
    let ran = "SELECT sequencename::text FROM pg_sequences WHERE last_value IS NOT NULL";
    let ran = session.query(ran, &[]).unwrap();
    let ran: Vec<String> = ran.iter().map(|row| row.get(0)).collect();
    assert_eq!(ran, [""; 0]);
}

/// Its owner could make another of it between the question what there is and the one for its rows.
#[test]
fn a_table_of_another_role_is_not_looked_into() {
    let server = Server::shared();
    let database = server.database();
    let owner = server.role("");
    let mut session = server.client_as(&database, "postgres");
    session
        .batch_execute(&format!(
            "CREATE SCHEMA jobs AUTHORIZATION {owner}; GRANT USAGE ON SCHEMA jobs TO PUBLIC;
             SET ROLE {owner};
             CREATE TABLE jobs.que_jobs (id bigint); INSERT INTO jobs.que_jobs VALUES (4815162342);
             GRANT SELECT ON jobs.que_jobs TO PUBLIC; RESET ROLE"
        ))
        .unwrap();
    hold(&mut session, "4815162342");
    for (role, program) in [(owner.as_str(), Some("possibly Que")), ("postgres", None)] {
        let programs = programs(&database, &["-U", role]);
        assert_eq!(programs["4815162342"].as_deref(), program, "{role}");
    }
}

#[test]
fn a_temporary_table_of_another_session_hides_nobody() {
    let server = Server::shared();
    let database = server.database();
    let mut session = server.client_as(&database, "postgres");
    session
        .batch_execute(
            "CREATE TEMPORARY TABLE good_jobs (id uuid, active_job_id uuid, finished_at timestamp);
             CREATE TABLE meta (queue_name text, is_partitioned bool, is_unlogged bool);
             INSERT INTO meta VALUES ('my_queue', false, false)",
        )
        .unwrap();
    hold(&mut session, "191642509");
    let programs = programs(&database, &[]);
    assert_eq!(programs["191642509"].as_deref(), Some("pgmq"));
}

#[test]
fn a_look_into_tables_that_took_too_long_is_not_taken_again() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    let server = thread::spawn(move || {
        let (mut client, _) = listener.accept().unwrap();
        serve_each(&mut client, |statement| {
            let texts =
                |texts: &[&str]| vec![texts.iter().map(|text| Some((*text).to_owned())).collect()];
            if statement.contains("AS MATERIALIZED (SELECT unnest(") {
                error("57014", "canceling statement due to statement timeout")
            } else if statement.contains("pg_replication_slots") {
                answer(
                    &["database", "keeper", "place"],
                    &texts(&["db", "0", "public.good_jobs"]),
                )
            } else {
                let columns = [
                    "standby", "classid", "objid", "objsubid", "mode", "granted", "pid", "database",
                ];
                answer(
                    &columns,
                    &texts(&["f", "4", "2", "1", "ExclusiveLock", "t", "7", "db"]),
                )
            }
        })
    });
    let listed = Pglock::without_server()
        .env("PGHOST", "127.0.0.1")
        .env("PGPORT", port)
        .env("PGSSLMODE", "disable")
        .env("PGUSER", "nobody")
        .args(["list", "--json"])
        .run();
    listed.assert_code(0).assert_stdout_has("17179869186");
    let asked = server.join().unwrap();
    let looks = asked
        .iter()
        .filter(|asked| asked.contains("ONLY public.good_jobs"));
    assert_eq!(looks.count(), 1, "{asked:#?}");
}

/// What `list --json` says of each key.
fn programs(database: &str, options: &[&str]) -> BTreeMap<String, Option<String>> {
    let list = Pglock::new(Server::shared()).env("PGDATABASE", database);
    let finished = list.args(["list", "--json"]).args(options).run();
    finished.assert_code(0).assert_stderr("");
    let views: Vec<Value> = serde_json::from_str(&finished.stdout).unwrap();
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let programs = views
        .iter()
        .map(|view| (text(&view["key"]).unwrap(), text(&view["program"])));
    programs.collect()
}

fn hold(session: &mut Client, key: &str) {
    session
        .batch_execute(&format!("SELECT pg_advisory_lock({key})"))
        .unwrap();
}

fn key(arguments: &[&str]) -> String {
    let finished = Pglock::without_server().arg("key").args(arguments).run();
    finished.assert_code(0);
    finished.stdout.trim().to_owned()
}
