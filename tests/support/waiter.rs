//! A session of another program that waits in the server for a lock.

use std::thread::{self, JoinHandle};

use postgres::Client;

use super::server::Server;
use super::sessions::backend_pid;
use super::wait::until;

/// A session blocked in a call for a lock, on a thread of its own.
pub struct Waiter {
    pid: i32,
    thread: JoinHandle<Client>,
}

impl Waiter {
    /// Calls `pg_advisory_lock(42)` or the like in this database, and returns once the server makes the call wait.
    #[track_caller]
    pub fn start(server: &Server, database: &str, call: &str) -> Self {
        let mut client = server.client_as(database, "postgres");
        let pid = backend_pid(&mut client);
        let statement = format!("SELECT {call}");
        let thread = thread::spawn(move || {
            client.batch_execute(&statement).unwrap();
            client
        });
        let mut probe = server.client();
        until("a waiting session", || {
            let waiting =
                "SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted AND pid = $1";
            !probe.query(waiting, &[&pid]).unwrap().is_empty()
        });
        Self { pid, thread }
    }

    /// The process of the session's backend.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// Waits until the session has got the lock, and gives it: the lock is held as long as this lives.
    #[track_caller]
    pub fn granted(self) -> Client {
        until("the lock for a waiting session", || {
            self.thread.is_finished()
        });
        self.thread.join().expect("the call did not fail")
    }
}
