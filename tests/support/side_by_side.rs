//! psql and pglock led by the same options, variables and files: whether both reach the same place.

use std::fs::{self, Permissions};
use std::io::ErrorKind;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use super::child::Running;
use super::finished::Finished;
use super::installation::program;
use super::pglock::Pglock;
use super::server::Server;
use super::wait::until;
use super::watchdog::Watchdog;

/// Every password of the tests that use this holds it, so that none goes unnoticed in an output.
const SECRET: &str = "s3cret";

/// What a session tells of the place it leads to; the same words for both programs.
const PLACE: &str = "SELECT concat_ws(' ', current_setting('port'), datname, usename, \
     CASE WHEN client_port > 0 THEN 'tcp' ELSE 'socket' END, CASE WHEN ssl THEN 'tls' END, client_dn) \
     FROM pg_stat_activity JOIN pg_stat_ssl USING (pid) WHERE pid = ";

/// What psql and pglock are both given, and what must come of it.
///
/// `<word>` in arguments, values and contents stands for a value that only the running test knows.
pub struct Case {
    name: &'static str,
    arguments: Vec<&'static str>,
    variables: Vec<(&'static str, &'static str)>,
    files: Vec<(&'static str, u32, &'static str)>,
    warning: &'static str,
    end: End,
    has_peer: bool,
}

enum End {
    /// Whatever psql comes to.
    AsPsql,
    /// The place as [`PLACE`] tells it.
    Reaches(&'static str),
    /// pglock's exit code, and a part of its message.
    Fails(i32, &'static str),
}

impl Case {
    /// A case with nothing but a name and a home directory of its own; what psql comes to, pglock must come to.
    pub fn new(name: &'static str) -> Self {
        Self {
            name,
            arguments: Vec::new(),
            variables: Vec::new(),
            files: Vec::new(),
            warning: "",
            end: End::AsPsql,
            has_peer: true,
        }
    }

    /// Gives both programs these arguments.
    pub fn args<const N: usize>(mut self, arguments: [&'static str; N]) -> Self {
        self.arguments.extend(arguments);
        self
    }

    /// Gives both programs this connection string.
    pub fn at(self, conninfo: &'static str) -> Self {
        self.args(["-d", conninfo])
    }

    /// Sets a variable for both programs.
    pub fn env(mut self, variable: &'static str, value: &'static str) -> Self {
        self.variables.push((variable, value));
        self
    }

    /// Puts a file into the home directory, for its owner alone to read.
    pub fn file(self, path: &'static str, text: &'static str) -> Self {
        self.file_with_mode(path, 0o600, text)
    }

    /// Puts a file with these permissions into the home directory.
    pub fn file_with_mode(mut self, path: &'static str, mode: u32, text: &'static str) -> Self {
        self.files.push((path, mode, text));
        self
    }

    /// Expects both programs to warn about this, in their own words around it.
    pub fn warns(mut self, part: &'static str) -> Self {
        self.warning = part;
        self
    }

    /// Leaves psql out: it is older than what is asked for.
    pub fn without_peer(mut self) -> Self {
        self.has_peer = false;
        self
    }

    /// Expects both programs to get there.
    pub fn reaches(mut self, place: &'static str) -> Self {
        self.end = End::Reaches(place);
        self
    }

    /// Expects both programs to fail, pglock because it gets no session.
    pub fn refused(mut self, part: &'static str) -> Self {
        self.end = End::Fails(121, part);
        self
    }

    /// Expects both programs to fail, pglock because it cannot follow what it was told.
    pub fn malformed(mut self, part: &'static str) -> Self {
        self.end = End::Fails(125, part);
        self
    }
}

/// The servers that cases lead to, and the words that stand for their addresses.
pub struct Place {
    /// Asked for the session that pglock says it has.
    pub servers: Vec<&'static Server>,
    /// `("<host>", "127.0.0.2")`
    pub words: Vec<(&'static str, String)>,
}

impl Place {
    /// What a word stands for.
    pub fn word(&self, wanted: &str) -> &str {
        let found = self.words.iter().find(|(word, _)| *word == wanted);
        &found.expect("a word of this place").1
    }
}

/// Runs all cases, and fails with every one that did not come out as expected.
#[track_caller]
pub fn compare(place: &Place, cases: &[Case]) {
    let scratch = Watchdog::start();
    let failures: Vec<String> = cases
        .iter()
        .enumerate()
        .filter_map(|(number, case)| {
            let home = scratch.directory().join(number.to_string());
            let failure = Trial::new(place, case, &home).failure()?;
            Some(format!("=== {}: {failure}", case.name))
        })
        .collect();
    assert!(
        failures.is_empty(),
        "{} of {} cases\n{}",
        failures.len(),
        cases.len(),
        failures.join("\n")
    );
}

/// One case on its way through both programs.
struct Trial<'a> {
    place: &'a Place,
    case: &'a Case,
    words: Vec<(&'static str, String)>,
    arguments: Vec<String>,
    environment: Vec<(&'static str, String)>,
}

impl<'a> Trial<'a> {
    fn new(place: &'a Place, case: &'a Case, home: &Path) -> Self {
        let home_name = home.to_str().expect("the harness makes plain paths");
        let mut words = place.words.clone();
        words.push(("<home>", home_name.to_owned()));
        let mut environment = vec![
            ("HOME", home_name.to_owned()),
            ("LANG", "C.UTF-8".to_owned()),
            ("PATH", std::env::var("PATH").unwrap_or_default()),
            // The hash of a password takes a busy machine longer than the default allows for.
            ("PGCONNECT_TIMEOUT", "60".to_owned()),
        ];
        for (variable, value) in &case.variables {
            environment.push((variable, fill_in(value, &words)));
        }
        make_directory(home);
        for (path, mode, text) in &case.files {
            let path = home.join(fill_in(path, &words));
            make_directory(path.parent().expect("a file is in a directory"));
            fs::write(&path, fill_in(text, &words)).unwrap();
            fs::set_permissions(&path, Permissions::from_mode(*mode)).unwrap();
        }
        let arguments = case.arguments.iter().map(|word| fill_in(word, &words));
        Self {
            arguments: arguments.collect(),
            place,
            case,
            words,
            environment,
        }
    }

    /// What is not as expected.
    fn failure(&self) -> Option<String> {
        let psql = self.case.has_peer.then(|| self.start_psql());
        let pglock = self.pglock();
        let psql = psql.map(Running::let_go);
        self.failure_of_psql(psql.as_ref())
            .or_else(|| self.failure_of_pglock(pglock, psql.as_ref()))
    }

    fn start_psql(&self) -> Running {
        let mut command = Command::new(program("psql"));
        let query = format!("{PLACE} pg_backend_pid()");
        command
            .env_clear()
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .args(["-w", "-XAtc", &query])
            .args(&self.arguments);
        Running::start(&mut command)
    }

    /// What psql does, which is what pglock must do: a case that expects anything else is wrong.
    fn failure_of_psql(&self, psql: Option<&Finished>) -> Option<String> {
        let psql = psql?;
        let as_expected = match self.case.end {
            End::Reaches(place) => {
                psql.code == Some(0)
                    && psql.stdout == fill_in(place, &self.words) + "\n"
                    && self.warns_as_expected(psql)
            }
            End::Fails(..) => psql.code == Some(2) && psql.stdout.is_empty(),
            End::AsPsql => matches!(psql.code, Some(0 | 2)),
        };
        (!as_expected).then(|| format!("expected {} of\n{psql:?}", self.expected()))
    }

    fn failure_of_pglock(&self, pglock: Outcome, psql: Option<&Finished>) -> Option<String> {
        let Outcome { finished, reached } = pglock;
        let as_expected = match self.case.end {
            End::Reaches(place) => {
                finished.code == Some(0)
                    && reached == Some(fill_in(place, &self.words))
                    && self.warns_as_expected(&finished)
            }
            End::AsPsql => match psql {
                Some(psql) if psql.code == Some(0) => {
                    finished.code == Some(0) && reached.as_deref() == Some(psql.stdout.trim_end())
                }
                _ => finished.code == Some(121),
            },
            End::Fails(code, part) => {
                finished.code == Some(code)
                    && finished.stdout.is_empty()
                    && finished.stderr.starts_with("pglock: ")
                    && finished.stderr.contains(&fill_in(part, &self.words))
            }
        };
        let is_discreet = !finished.stdout.contains(SECRET) && !finished.stderr.contains(SECRET);
        if as_expected && is_discreet {
            return None;
        }
        let expected = self.expected();
        Some(format!(
            "expected {expected} and no password, and reached {reached:?} with\n{finished:?}\nwhere psql did\n{psql:?}"
        ))
    }

    fn warns_as_expected(&self, finished: &Finished) -> bool {
        match self.case.warning {
            "" => finished.stderr.is_empty(),
            part => finished.stderr.contains(part),
        }
    }

    fn expected(&self) -> String {
        match self.case.end {
            End::Reaches(place) => {
                format!(
                    "the way to {:?} with a warning of {:?}",
                    fill_in(place, &self.words),
                    self.case.warning
                )
            }
            End::AsPsql => "the same as of psql".to_owned(),
            End::Fails(code, part) => format!("a failure (pglock: {code} and {part:?})"),
        }
    }

    /// Holds a lock for as long as it takes to find the session on one of the servers.
    fn pglock(&self) -> Outcome {
        let name = unique_name();
        let environment = self.environment.iter().map(|(name, value)| (name, value));
        let mut running = Pglock::without_server()
            .envs(environment)
            .arg("run")
            .args(&self.arguments)
            .args([&name, "sh", "-c", "echo $PGLOCK_BACKEND_PID; exec cat"])
            .spawn();
        until("pglock's command, or its end", || {
            running.stdout_so_far().ends_with('\n') || !running.is_running()
        });
        let said = running.stdout_so_far();
        let reached = said.trim().parse().ok().and_then(|pid| {
            let servers = self.place.servers.iter();
            servers
                .into_iter()
                .find_map(|server| place_of(server, pid, &name))
        });
        Outcome {
            finished: running.let_go(),
            reached,
        }
    }
}

struct Outcome {
    finished: Finished,
    reached: Option<String>,
}

/// The place of this backend, if it is on this server and holds the lock of this name.
fn place_of(server: &Server, pid: i32, name: &str) -> Option<String> {
    let query = format!("{PLACE} $1 AND starts_with(application_name, $2)");
    let mut client = server.client();
    let row = client.query_opt(&query, &[&pid, &format!("pglock: {name} (")]);
    row.unwrap().map(|row| row.get(0))
}

fn fill_in(text: &str, words: &[(&'static str, String)]) -> String {
    words.iter().fold(text.to_owned(), |text, (word, value)| {
        text.replace(word, value)
    })
}

/// Makes a directory that belongs to whom its parent belongs to, who is to remove it.
fn make_directory(path: &Path) {
    match fs::create_dir(path) {
        Ok(()) => {
            let parent = fs::metadata(path.parent().expect("not the root")).unwrap();
            chown(path, Some(parent.uid()), Some(parent.gid())).unwrap();
        }
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
        Err(error) => panic!("{}: {error}", path.display()),
    }
}

fn unique_name() -> String {
    static COUNT: AtomicU32 = AtomicU32::new(1);
    format!("side-by-side-{}", COUNT.fetch_add(1, Ordering::Relaxed))
}
