//! The installed server software: where its programs are, and a data directory made by its `initdb`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use super::watchdog::Watchdog;

/// The data directory all servers begin as a copy of: `initdb` takes longer than the rest of a test.
pub fn template() -> &'static Watchdog {
    static TEMPLATE: OnceLock<Watchdog> = OnceLock::new();
    TEMPLATE.get_or_init(|| {
        let watchdog = Watchdog::start();
        let data = watchdog.directory().join("data");
        let words = "--no-sync --auth=trust --username=postgres --encoding=UTF8 --locale=C.UTF-8 --wal-segsize=1 --pgdata";
        let mut words: Vec<&str> = words.split(' ').chain([data.to_str().expect("the harness makes plain paths")]).collect();
        let initdb = program("initdb");
        words.insert(0, &initdb);
        watchdog.run(&words);
        watchdog
    })
}

/// A path of one of the server's programs.
pub fn program(name: &str) -> String {
    static DIRECTORY: OnceLock<PathBuf> = OnceLock::new();
    let directory = DIRECTORY.get_or_init(|| {
        let chosen = std::env::var_os("PGLOCK_TEST_PG_BIN").map(PathBuf::from);
        chosen.or_else(newest_debian).unwrap_or_else(pg_config)
    });
    directory.join(name).to_string_lossy().into_owned()
}

fn newest_debian() -> Option<PathBuf> {
    let versions = fs::read_dir("/usr/lib/postgresql").ok()?.flatten();
    versions
        .filter(|version| version.path().join("bin/postgres").exists())
        .max_by_key(|version| version.file_name().to_string_lossy().parse::<u32>().ok())
        .map(|version| version.path().join("bin"))
}

fn pg_config() -> PathBuf {
    let output = Command::new("pg_config").arg("--bindir").output();
    let output = output
        .expect("a PostgreSQL server is installed, or PGLOCK_TEST_PG_BIN names its bin directory");
    String::from_utf8_lossy(&output.stdout).trim().into()
}
