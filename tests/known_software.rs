//! `list` says whose locks it shows, and never with certainty what it cannot know.

use std::collections::BTreeMap;

use postgres::Client;
use serde_json::Value;

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
