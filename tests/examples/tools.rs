//! What the tests of the examples share: files read and checked, and programs of Python's.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use serde_json::Value;

use crate::examples::database::example;
use crate::support::{Finished, Running};

/// A YAML file of `examples/`.
#[track_caller]
pub fn yaml(path: &str) -> Value {
    serde_saphyr::from_str(&example(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The value at a place in a YAML file: `/jobs/deploy/steps/1`.
#[track_caller]
pub fn at<'a>(value: &'a Value, place: &str) -> &'a Value {
    let found = value.pointer(place);
    found.unwrap_or_else(|| panic!("nothing at {place} of {value:#}"))
}

/// The text at a place in a YAML file.
#[track_caller]
pub fn text<'a>(value: &'a Value, place: &str) -> &'a str {
    let found = at(value, place).as_str();
    found.unwrap_or_else(|| panic!("no text at {place} of {value:#}"))
}

/// The path of a file of `examples/`.
pub fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("examples")
        .join(name)
}

/// One of the programs that `scripts/install-python-tools` installs.
pub fn python_tool(name: &str) -> Command {
    static DIRECTORY: OnceLock<String> = OnceLock::new();
    let directory = DIRECTORY.get_or_init(|| {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/scripts/install-python-tools");
        let installed = Command::new(script).output().unwrap();
        assert!(installed.status.success(), "{installed:?}");
        String::from_utf8(installed.stdout)
            .unwrap()
            .trim()
            .to_owned()
    });
    Command::new(format!("{directory}/{name}"))
}

/// Checks a file against a schema.
#[track_caller]
pub fn check(tool: &str, options: &[&str], file: &str) -> Finished {
    let mut command = python_tool(tool);
    let finished = Running::start(command.args(options).arg(path(file))).wait();
    finished.assert_code(0);
    finished
}
