//! Every command that the README shows is run as it stands.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use postgres::SimpleQueryMessage;

use crate::support::{Finished, Running, Server, Watchdog};

/// The jobs that the README speaks of, each of which prints its name.
const JOBS: [&str; 3] = ["report", "deploy", "load"];

#[test]
fn the_commands_of_the_readme_do_what_it_says() {
    let place = Place::new();
    let blocks = blocks("sh");
    assert!(blocks.len() > 9, "the README shows commands: {blocks:?}");
    for block in blocks {
        place.sh(&place.named_in(&block)).assert_code(0);
    }
    place
        .sh("pglock key my_lock")
        .assert_stdout("9207781743510115226\n");
}

#[test]
fn the_sql_of_the_readme_gives_the_key_and_the_shard_it_says() {
    let [key, _fence, shard] = blocks("sql").try_into().unwrap();
    let mut client = Server::shared().client();
    let row = client.query_one(&key, &[]).unwrap();
    assert_eq!(row.get::<_, i64>(0), 9_207_781_743_510_115_226);

    let mut shard_of = |name: &str| {
        let statement = shard.replace("my_lock", name);
        let rows = client.simple_query(&statement).unwrap();
        let row = rows.into_iter().find_map(|message| match message {
            SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
            _ => None,
        });
        row.unwrap()
    };
    assert_eq!(shard_of("my_lock"), "2");
    // The first bit of this one's hash is set.
    assert_eq!(shard_of("größe"), "3");
}

#[test]
fn the_cron_entry_of_the_readme_runs_its_job() {
    let place = Place::new();
    let [entry] = blocks("cron").try_into().unwrap();
    let command = entry.splitn(6, ' ').nth(5).unwrap();
    let command = command
        .replace("/usr/local/bin/", "")
        .replace(
            "postgres://report@db.example/app",
            &format!("dbname={}", place.database),
        )
        .replace("/opt/report.sh", "./report.sh");
    place.sh(&command).assert_code(0).assert_stdout("report\n");
}

/// A directory with the jobs in it, and a database whose locks nobody else takes.
struct Place {
    scratch: Watchdog,
    database: String,
}

impl Place {
    fn new() -> Self {
        let scratch = Watchdog::start();
        for job in JOBS {
            let path = scratch.directory().join(format!("{job}.sh"));
            fs::write(&path, format!("#!/bin/sh\necho {job}\n")).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        let database = Server::shared().database();
        Self { scratch, database }
    }

    /// A text of the README with this place in place of the README's.
    fn named_in(&self, text: &str) -> String {
        let server = Server::shared();
        let host = server.socket_dir().to_str().unwrap();
        text.replace(" app --", &format!(" {} --", self.database))
            .replace(" app,public ", &format!(" {},public ", self.database))
            .replace(
                "host=db.example port=5432",
                &format!("host={host} port={}", server.port()),
            )
    }

    /// Runs a block of the README in a shell that finds pglock on its PATH and stops at the first failure.
    fn sh(&self, script: &str) -> Finished {
        let binary = Path::new(env!("CARGO_BIN_EXE_pglock")).parent().unwrap();
        let path = std::env::var("PATH").unwrap();
        let mut shell = Command::new("sh");
        shell
            .args(["-euc", script])
            .current_dir(self.scratch.directory())
            .env("PATH", format!("{}:{path}", binary.display()))
            .envs(Server::shared().env())
            .env("PGDATABASE", &self.database);
        Running::start(&mut shell).wait()
    }
}

/// The fenced blocks of one language.
pub fn blocks(language: &str) -> Vec<String> {
    let readme = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/README.md")).unwrap();
    let fence = format!("```{language}\n");
    let after_fences = readme.split(&fence).skip(1);
    after_fences
        .map(|text| text.split("```").next().unwrap().to_owned())
        .collect()
}
