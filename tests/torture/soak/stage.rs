//! The server of a soak, and what is to be seen from there.

use std::collections::BTreeSet;
use std::error::Error;
use std::fs;
use std::thread::sleep;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use postgres::Client;

use super::cast::Cast;
use super::findings::Findings;
use super::plan::{Line, Part, Role};
use super::subject::{Group, Subject};
use crate::clock;
use crate::options::Crew;
use crate::processes;
use crate::sightings;
use crate::support::{Pglock, Server};
use crate::testbed::MARK;

/// How old a session is that has settled, in seconds: it has sent many heartbeats, or asked for its lock as often.
const SETTLED: f64 = 20.0;

/// Sessions beside those of the crew: the soak's own and the server's reserve.
const OTHERS: usize = 20;

/// What a guardian calls itself.
const GUARDIAN: &str = "lock-guardian";

/// Longer than what is over may take to vanish on a slow machine.
const AFTERMATH: Duration = Duration::from_secs(30);

/// Between two looks at what is left: each reads the whole of /proc.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// The sessions of pglock that are at least so old.
const SESSIONS: &str = "
    SELECT pid FROM pg_catalog.pg_stat_activity
    WHERE pg_catalog.starts_with(application_name, 'pglock')
        AND backend_start <= pg_catalog.clock_timestamp() - pg_catalog.make_interval(secs => $1)";

/// Which backends hold which keys.
pub type Held = BTreeSet<(i32, i64)>;

/// The server, and a session of the soak's own.
pub struct Stage {
    client: Client,
    server: Server,
}

impl Stage {
    pub fn build(crew: Crew) -> Self {
        let connections = crew.holders + crew.waiters + OTHERS;
        let server = Server::with(&[&format!("max_connections = {connections}")]);
        let client = server.client();
        Self { client, server }
    }

    /// The pglock of this part, without a terminal.
    pub fn pglock(&self, part: &Part) -> Pglock {
        let pglock = Pglock::new(&self.server).env(MARK, self.mark());
        let pglock = match part.line {
            Line::Socket => pglock,
            Line::Tcp => pglock.env("PGHOST", self.server.host()),
        };
        pglock.through(&["setsid"]).args(&part.arguments)
    }

    /// The backends of those who have settled.
    pub fn settled(&mut self) -> Result<Vec<i32>, postgres::Error> {
        self.sessions(SETTLED)
    }

    /// The backends of everybody.
    pub fn present(&mut self) -> Result<Vec<i32>, postgres::Error> {
        self.sessions(0.0)
    }

    pub fn held(&self) -> Result<Held, postgres::Error> {
        let held = sightings::look(&self.server, &mut None)?;
        Ok(held.into_iter().collect())
    }

    /// All processes to watch.
    pub fn subjects(
        &mut self,
        cast: &mut Cast,
        findings: &mut Findings,
    ) -> Result<Vec<Subject>, postgres::Error> {
        let mut subjects = Vec::new();
        for (role, run) in cast.members() {
            let group = match role {
                Role::Holder => Group::Holders,
                Role::Waiter => Group::Waiters,
            };
            subjects.push(Subject::new(group, run.pid()));
        }
        let marked = processes::marked(self.mark()).into_keys();
        let guardians: Vec<Pid> = marked
            .filter(|pid| processes::name(*pid) == GUARDIAN)
            .collect();
        // Who waits has one already.
        let (count, expected) = (guardians.len(), cast.count());
        if count != expected {
            findings.mishap(format!("{count} of {expected} guardians"));
        }
        let backends = self.settled()?.into_iter().map(Pid::from_raw);
        subjects.extend(
            guardians
                .iter()
                .map(|pid| Subject::new(Group::Guardians, *pid)),
        );
        subjects.extend(backends.map(|pid| Subject::new(Group::Backends, pid)));
        Ok(subjects)
    }

    /// Looks for what is left once everybody has gone, and ends the server.
    pub fn close(mut self, findings: &mut Findings) -> Result<(), Box<dyn Error>> {
        let start = clock::now();
        let mut left = self.leftovers()?;
        while !left.is_empty() && clock::since(start) < AFTERMATH {
            sleep(LOOK_AGAIN);
            left = self.leftovers()?;
        }
        findings.left(left);
        for pid in processes::marked(self.mark()).into_keys() {
            // It may have ended meanwhile.
            let _ = kill(pid, Signal::SIGKILL);
        }
        findings.logged(self.server.log_lines_at_or_above_warning());
        let directory = self.server.socket_dir().to_owned();
        drop(self);
        if fs::exists(&directory)? {
            findings.left([directory.display().to_string()]);
        }
        Ok(())
    }

    /// Processes, sessions and locks.
    fn leftovers(&mut self) -> Result<Vec<String>, postgres::Error> {
        let processes = processes::marked(self.mark()).into_values();
        let sessions = self.present()?.into_iter();
        let locks = self.held()?.into_iter();
        Ok(processes
            .chain(sessions.map(|backend| format!("the session of backend {backend}")))
            .chain(locks.map(|(backend, key)| format!("backend {backend} still holds {key}")))
            .collect())
    }

    fn sessions(&mut self, age: f64) -> Result<Vec<i32>, postgres::Error> {
        let rows = self.client.query(SESSIONS, &[&age])?;
        Ok(rows.iter().map(|row| row.get("pid")).collect())
    }

    /// The value of [`MARK`], which nothing else on this machine has.
    fn mark(&self) -> &str {
        self.server.socket_dir().to_str().expect("a plain path")
    }
}
