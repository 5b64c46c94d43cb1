//! `examples/migrations`: the entry point, as many instances at once start with it.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use nix::sys::signal::Signal;
use postgres::Client;

use crate::examples::tools::path;
use crate::support::{Running, Server, Watchdog, binary, holders, until, waiters};

const LOCK: &str = "migrations";

/// An application that says that it serves, and ends when it is told to.
const APP: &str = "trap 'echo stopped; exit 0' TERM; echo serves; sleep 300 & wait";

#[test]
fn of_five_instances_one_migrates_and_all_serve() {
    let site = Site::new();
    // All of them stand in line before the first may begin.
    let mut client = site.client();
    let key = "('x' || left(encode(sha256('migrations'), 'hex'), 16))::bit(64)::bigint";
    let own = |client: &mut Client, function: &str| {
        client
            .batch_execute(&format!("SELECT {function}({key})"))
            .unwrap();
    };
    own(&mut client, "pg_advisory_lock");
    let mut instances: Vec<Running> = (0..5).map(|_| site.start()).collect();
    until("five waiting instances", || {
        waiters(&mut client, LOCK).len() == 5
    });
    own(&mut client, "pg_advisory_unlock");

    for instance in &mut instances {
        instance.wait_line("serves");
    }
    let said: String = instances.iter().map(Running::stdout_so_far).collect();
    for migration in ["0001_accounts", "0002_first_account"] {
        assert_eq!(
            said.matches(&format!("migrating: {migration}\n")).count(),
            1,
            "{said}"
        );
    }
    assert_eq!(site.count("accounts"), 1);
    assert_eq!(site.count("schema_migrations"), 2);
    assert_eq!(holders(&mut client, LOCK), [0; 0]);
    for mut instance in instances {
        // To what was the shell.
        instance.signal(Signal::SIGTERM);
        let finished = instance.wait();
        finished
            .assert_code(0)
            .assert_stderr("")
            .assert_stdout_has("serves\nstopped\n");
    }
}

#[test]
fn a_migration_that_fails_ends_the_start_and_is_not_half_done() {
    let site = Site::new();
    site.add("0003_broken", "CREATE TABLE half (id int); SELECT 1 / 0;");
    site.add("0004_never", "CREATE TABLE never (id int);");
    let finished = site.start().wait();
    finished
        .assert_code(3)
        .assert_stdout(
            "migrating: 0001_accounts\nmigrating: 0002_first_account\nmigrating: 0003_broken\n",
        )
        .assert_stderr_has("division by zero");
    assert_eq!(site.count("schema_migrations"), 2);
    assert_eq!(site.count("pg_class WHERE relname IN ('half', 'never')"), 0);
    assert_eq!(holders(&mut site.client(), LOCK), [0; 0]);

    site.add("0003_broken", "CREATE TABLE half (id int);");
    let mut instance = site.start();
    instance.wait_line("serves");
    assert_eq!(site.count("schema_migrations"), 4);
}

#[test]
fn an_instance_that_is_told_to_stop_while_it_migrates_does_not_serve() {
    let site = Site::new();
    site.add("0003_long", "SELECT pg_sleep(300);");
    let mut instance = site.start();
    instance.wait_line("migrating: 0003_long");
    instance.signal(Signal::SIGTERM);
    let finished = instance.wait();
    finished.assert(finished.code.is_some_and(|code| code != 0), "a failure");
    finished.assert(!finished.stdout.contains("serves"), "no application");
    let mut client = site.client();
    until("a free lock", || holders(&mut client, LOCK).is_empty());
}

#[test]
fn an_instance_that_waits_too_long_does_not_serve() {
    let site = Site::new();
    site.add("0003_long", "SELECT pg_sleep(300);");
    let mut first = site.start();
    first.wait_line("migrating: 0003_long");
    let second = Running::start(site.command().env("MIGRATION_TIMEOUT", "0")).wait();
    second
        .assert_code(75)
        .assert_stdout("")
        .assert_one_message();
    second.assert_stderr_has("pglock: migrations is held by ");
}

/// A copy of the example, and a database of its own.
struct Site {
    scratch: Watchdog,
    database: String,
}

impl Site {
    fn new() -> Self {
        let scratch = Watchdog::start();
        let (from, to) = (path("migrations"), scratch.directory().join("app"));
        copy(&from, &to);
        copy(&from.join("migrations"), &to.join("migrations"));
        symlink(binary(), scratch.directory().join("pglock")).unwrap();
        Self {
            scratch,
            database: Server::shared().database(),
        }
    }

    /// Adds a migration, or replaces it.
    fn add(&self, name: &str, sql: &str) {
        let file = self.app().join("migrations").join(format!("{name}.sql"));
        fs::write(file, sql).unwrap();
    }

    fn app(&self) -> PathBuf {
        self.scratch.directory().join("app")
    }

    fn command(&self) -> Command {
        let path = std::env::var("PATH").unwrap();
        let mut command = Command::new(self.app().join("entrypoint.sh"));
        command
            .args(["sh", "-c", APP])
            .env(
                "PATH",
                format!("{}:{path}", self.scratch.directory().display()),
            )
            .envs(Server::shared().env())
            .env("PGDATABASE", &self.database);
        command
    }

    #[track_caller]
    fn start(&self) -> Running {
        Running::start(&mut self.command())
    }

    fn client(&self) -> Client {
        Server::shared().client_as(&self.database, "postgres")
    }

    fn count(&self, of: &str) -> i64 {
        let row = self
            .client()
            .query_one(&format!("SELECT count(*) FROM {of}"), &[]);
        row.unwrap().get(0)
    }
}

/// Copies the files of a directory, which keep their modes.
fn copy(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_file() {
            fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
        }
    }
}
