//! What a test asks of a server through sessions of its own, independent of pglock.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use postgres::{Client, Config, NoTls};

use super::proxy::Proxy;
use super::server::Server;
use super::wait::until;

/// Between two tries of a waiting pglock.
const LONGEST_PAUSE: Duration = Duration::from_millis(1250);

impl Server {
    /// A superuser's session in the database `postgres`, over the socket.
    #[track_caller]
    pub fn client(&self) -> Client {
        self.client_as("postgres", "postgres")
    }

    /// A session of `user` in `database`, over the socket.
    #[track_caller]
    pub fn client_as(&self, database: &str, user: &str) -> Client {
        Config::new()
            .host_path(self.socket_dir())
            .port(self.port())
            .dbname(database)
            .user(user)
            .application_name("test")
            .connect(NoTls)
            .unwrap_or_else(|error| panic!("{user} in {database}: {error:?}\n{}", self.log()))
    }

    /// Creates an empty database and gives its name, which no other has.
    pub fn database(&self) -> String {
        let name = unique("db");
        self.execute(&format!("CREATE DATABASE {name}"));
        name
    }

    /// Creates a role that may log in, with these further options (`"CONNECTION LIMIT 1"`), and gives its name.
    pub fn role(&self, options: &str) -> String {
        let name = unique("role");
        self.execute(&format!("CREATE ROLE {name} LOGIN {options}"));
        name
    }

    /// Runs one statement as superuser in the database `postgres`.
    #[track_caller]
    pub fn execute(&self, statement: &str) {
        let done = self.client().batch_execute(statement);
        done.unwrap_or_else(|error| panic!("{statement}: {error:?}"));
    }

    /// The version as the server numbers it: 150018 is 15.18.
    pub fn version_num(&self) -> u32 {
        let row = self
            .client()
            .query_one("SHOW server_version_num", &[])
            .unwrap();
        row.get::<_, &str>(0).parse().unwrap()
    }
}

/// The process of the session's backend.
#[track_caller]
pub fn backend_pid(client: &mut Client) -> i32 {
    let row = client.query_one("SELECT pg_backend_pid()", &[]);
    row.unwrap().get(0)
}

/// The backends that hold the lock of this name, which is in no namespace, in the session's database.
#[track_caller]
pub fn holders(client: &mut Client, name: &str) -> Vec<i32> {
    const HOLDERS: &str = "
        WITH lock AS (SELECT ('x' || left(encode(sha256(convert_to($1, 'UTF8')), 'hex'), 16))::bit(64)::bigint AS key)
        SELECT pid FROM pg_locks, lock
        WHERE locktype = 'advisory' AND objsubid = 1 AND granted
            AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
            AND (classid::bigint << 32) | objid::bigint = key";
    let rows = client.query(HOLDERS, &[&name]).unwrap();
    rows.iter().map(|row| row.get(0)).collect()
}

/// The sessions of pglock that wait for the lock of this name, in any database.
#[track_caller]
pub fn waiters(client: &mut Client, name: &str) -> Vec<i32> {
    let sessions = "SELECT pid FROM pg_stat_activity WHERE starts_with(application_name, $1)";
    let rows = client.query(sessions, &[&format!("pglock? {name} (")]);
    rows.unwrap().iter().map(|row| row.get(0)).collect()
}

/// How many tickets of queues there are on the server, where no test takes such locks otherwise.
#[track_caller]
pub fn tickets(client: &mut Client) -> usize {
    let tickets =
        "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 2 AND objid > 0";
    let count: i64 = client.query_one(tickets, &[]).unwrap().get(0);
    count.try_into().unwrap()
}

/// Waits until this session is the only one in its database.
#[track_caller]
pub fn await_solitude(client: &mut Client) {
    let others = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()";
    until("the end of all other sessions", || {
        client.query_one(others, &[]).unwrap().get::<_, i64>(0) == 0
    });
}

fn unique(kind: &str) -> String {
    static COUNT: AtomicU32 = AtomicU32::new(1);
    format!("{kind}_{}", COUNT.fetch_add(1, Ordering::Relaxed))
}

/// Stops the backend of a waiting pglock whose only connection goes through `proxy`, in the middle of a try: the
/// client has sent it, and the answer does not come until the backend is continued.
pub fn stop_in_a_try(backend: i32, proxy: &Proxy) {
    kill(Pid::from_raw(backend), Signal::SIGSTOP).unwrap();
    let sent = proxy.flights();
    // A backend that was stopped before it had sent its last answer is never asked again.
    let surely_asked = Instant::now() + LONGEST_PAUSE * 3;
    until("a try that is not answered", || {
        proxy.flights() != sent || Instant::now() > surely_asked
    });
}

/// Ends the one session that holds the lock of this pglock name.
#[track_caller]
pub fn terminate_holder(server: &Server, lock: &str) {
    let mut client = server.client();
    let backends = holders(&mut client, lock);
    assert_eq!(backends.len(), 1);
    client
        .execute("SELECT pg_terminate_backend($1)", &[&backends[0]])
        .unwrap();
}

/// Waits until the one holder of the lock of this pglock name has sent so many more statements.
#[track_caller]
pub fn await_heartbeats(client: &mut Client, lock: &str, count: usize) {
    let backends = holders(client, lock);
    assert_eq!(backends.len(), 1);
    let start = "SELECT query_start::text FROM pg_stat_activity WHERE pid = $1";
    let mut starts: Vec<String> = Vec::new();
    until("heartbeats", || {
        let start = client.query_one(start, &[&backends[0]]).unwrap().get(0);
        if starts.last() != Some(&start) {
            starts.push(start);
        }
        starts.len() > count
    });
}

/// Nobody holds the lock of this pglock name.
#[track_caller]
pub fn assert_free(server: &Server, lock: &str) {
    assert_eq!(holders(&mut server.client(), lock), [0; 0]);
}
