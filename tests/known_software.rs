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
