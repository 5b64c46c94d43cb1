//! `examples/github-actions` and `examples/gitlab-ci`: checked against the schemas, and their commands run as the runners would. Only the
//! server's address is put in place of the examples'.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

use nix::sys::signal::{Signal, kill, killpg};
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;

use crate::examples::tools::{at, check, text, yaml};
use crate::support::{
    Running, Server, Watchdog, binary, child_named, children_of, holders, until, write_to_reader,
};

const GITHUB: &str = "github-actions/deploy.yml";
const GITLAB: &str = "gitlab-ci/deploy.gitlab-ci.yml";

/// Is done when a line comes through the pipe `go`; where DEAF is set it heeds no signal.
const DEPLOY: &str =
    "#!/bin/sh\n[ -z \"$DEAF\" ] || trap '' INT TERM\necho begins\nread -r line <go\necho ends\n";

#[test]
fn the_workflows_are_what_the_services_know() {
    let schema = |name| ["--builtin-schema", name];
    check(
        "check-jsonschema",
        &schema("vendor.github-workflows"),
        GITHUB,
    );
    let gitlab = [
        &schema("vendor.gitlab-ci")[..],
        &["--data-transform", "gitlab-ci"],
    ]
    .concat();
    check("check-jsonschema", &gitlab, GITLAB);
    for (file, limit) in [
        (GITHUB, "/jobs/deploy/timeout-minutes"),
        (GITLAB, "/deploy/timeout"),
    ] {
        let file = yaml(file);
        let limit = at(&file, limit).to_string();
        assert!(
            limit.trim_matches('"').starts_with("55"),
            "20 and 30 minutes, and the grace"
        );
    }
}

#[test]
fn deployments_from_two_repositories_go_one_after_the_other() {
    for runner in [Runner::github(), Runner::gitlab()] {
        let mut first = runner.start(false);
        first.wait_line("begins");
        let mut second = runner.start(false);
        second.wait_stderr("waiting");
        assert_eq!(second.stdout_so_far(), "");
        runner.let_go_on();
        first.wait().assert_code(0).assert_stdout("begins\nends\n");
        second.wait_line("begins");
        runner.let_go_on();
        second.wait().assert_code(0).assert_stdout("begins\nends\n");
        runner.assert_free();
    }
}

#[test]
fn a_step_that_is_cancelled_on_github_stops_the_deployment_and_leaves_no_lock() {
    let runner = Runner::github();
    let mut step = runner.start(false);
    step.wait_line("begins");
    // The step's first process alone.
    step.signal(Signal::SIGINT);
    step.wait().assert_code(130).assert_stdout("begins\n");
    runner.assert_free();
}

#[test]
fn a_step_on_github_that_heeds_nothing_is_killed_and_leaves_no_lock() {
    let runner = Runner::github();
    let mut step = runner.start(true);
    step.wait_line("begins");
    let job = child_named(step.pid(), "deploy.sh").expect("the deployment");
    step.signal(Signal::SIGINT);
    step.signal(Signal::SIGTERM);
    // Then all that the step has started.
    let mut all = vec![step.pid()];
    let mut seen = 0;
    while let Some(parent) = all.get(seen).copied() {
        all.extend(children_of(parent));
        seen += 1;
    }
    assert!(all.contains(&job));
    for pid in all {
        let _ = kill(pid, Signal::SIGKILL);
    }
    step.wait().assert_signal(9);
    runner.await_free();
}

#[test]
fn a_job_that_is_cancelled_on_gitlab_stops_the_deployment_and_leaves_no_lock() {
    let runner = Runner::gitlab();
    let mut job = runner.start(false);
    job.wait_line("begins");
    // The shell's process group.
    killpg(job.pid(), Signal::SIGTERM).unwrap();
    job.wait().assert_stdout("begins\n");
    runner.await_free();
}

#[test]
fn a_deployment_that_waits_is_cancelled_at_once() {
    let runner = Runner::github();
    let mut first = runner.start(false);
    first.wait_line("begins");
    let mut second = runner.start(false);
    second.wait_stderr("waiting");
    second.signal(Signal::SIGINT);
    second.wait().assert_code(130).assert_stdout("");
    runner.let_go_on();
    first.wait().assert_code(0);
}

/// A check-out and a database of its own, and the way one of the services runs a script there.
struct Runner {
    scratch: Watchdog,
    database: String,
    environment: Vec<(String, String)>,
    words: Vec<String>,
}

impl Runner {
    /// A step is a file that `bash -e` reads.
    fn github() -> Self {
        let workflow = yaml(GITHUB);
        let step = at(&workflow, "/jobs/deploy/steps/1");
        let runner = Self::new(at(step, "/env"));
        let script = runner.directory().join("step.sh");
        fs::write(&script, text(step, "/run")).unwrap();
        let script = script.to_str().unwrap();
        runner.through(&["bash", "-e", script])
    }

    /// All lines are one script, which a shell evaluates in a pipeline.
    fn gitlab() -> Self {
        let file = yaml(GITLAB);
        let lines = at(&file, "/deploy/script").as_array().unwrap();
        let lines: Vec<&str> = lines.iter().map(|line| line.as_str().unwrap()).collect();
        let script = shlex::try_quote(&lines.join("\n")).unwrap().into_owned();
        let runner = Self::new(at(&file, "/deploy/variables"));
        let script = format!("set -eo pipefail\nset +o noclobber\n: | eval {script}\nexit 0\n");
        runner.through(&["bash", "-c", &script])
    }

    fn new(environment: &serde_json::Value) -> Self {
        let scratch = Watchdog::start();
        let deploy = scratch.directory().join("deploy.sh");
        fs::write(&deploy, DEPLOY).unwrap();
        fs::set_permissions(&deploy, Permissions::from_mode(0o755)).unwrap();
        mkfifo(&scratch.directory().join("go"), Mode::S_IRWXU).unwrap();
        symlink(binary(), scratch.directory().join("pglock")).unwrap();
        let database = Server::shared().database();
        let url = format!("postgres:///{database}");
        let environment = environment
            .as_object()
            .unwrap()
            .iter()
            .map(|(name, value)| {
                let value = value.as_str().unwrap();
                let value = match name.as_str() {
                    "PGLOCK_URL" => value.replace(
                        "postgres://deploy@db.example/app?sslmode=verify-full&sslrootcert=system",
                        &url,
                    ),
                    "PGPASSWORD" => value.replace("${{ secrets.PGLOCK_PASSWORD }}", "unused"),
                    other => panic!("a variable that no test knows: {other}"),
                };
                (name.clone(), value)
            });
        Self {
            environment: environment.collect(),
            scratch,
            database,
            words: Vec::new(),
        }
    }

    fn through(mut self, words: &[&str]) -> Self {
        self.words = words.iter().map(|&word| word.to_owned()).collect();
        self
    }

    fn directory(&self) -> &Path {
        self.scratch.directory()
    }

    #[track_caller]
    fn start(&self, deaf: bool) -> Running {
        let path = std::env::var("PATH").unwrap();
        // A runner has no terminal.
        let mut command = Command::new("setsid");
        command
            .args(["env", "--default-signal=INT,TERM,QUIT"])
            .args(&self.words)
            .current_dir(self.directory())
            .env("PATH", format!("{}:{path}", self.directory().display()))
            .envs(Server::shared().env())
            .envs(self.environment.iter().cloned())
            .env("DEAF", if deaf { "1" } else { "" });
        Running::start(&mut command)
    }

    /// Lets the deployment that has begun come to its end.
    fn let_go_on(&self) {
        write_to_reader(&self.directory().join("go"), "go\n");
    }

    #[track_caller]
    fn assert_free(&self) {
        let mut client = Server::shared().client_as(&self.database, "postgres");
        for lock in ["production", "maintenance"] {
            assert_eq!(holders(&mut client, lock), [0; 0], "{lock}");
        }
    }

    #[track_caller]
    fn await_free(&self) {
        let mut client = Server::shared().client_as(&self.database, "postgres");
        for lock in ["production", "maintenance"] {
            until("a free lock", || holders(&mut client, lock).is_empty());
        }
    }
}
