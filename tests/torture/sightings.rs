//! Which backend was seen to hold which lock, and when: the server's side of the truth.

use std::collections::HashMap;
use std::thread::sleep;
use std::time::Duration;

use postgres::{Client, Config, NoTls};

use crate::clock;
use crate::support::Server;
use crate::testbed::Testbed;

/// How often to look: what was let go just after one look is seen to be gone by the next.
const PERIOD: Duration = Duration::from_millis(25);

/// How long a server that starts or is stopped is left alone.
const RETRY: Duration = Duration::from_millis(50);

/// The locks on `bigint` keys that are granted, wherever they are.
const HELD: &str = "
    SELECT pid, (classid::pg_catalog.int8 << 32) | objid::pg_catalog.int8 AS key
    FROM pg_catalog.pg_locks
    WHERE locktype = 'advisory' AND granted AND objsubid = 1";

/// A lock that a backend held without an interruption that would have been seen.
#[derive(Clone, Copy, Debug)]
pub struct Sighting {
    pub backend: i32,
    pub key: i64,
    pub first: Duration,
    /// The first look that did not show it, or the last that did, if the server then gave no more answers.
    pub gone: Duration,
}

/// Looks until `is_done`.
pub fn collect(testbed: &Testbed, is_done: impl Fn() -> bool) -> Vec<Sighting> {
    let mut over = Vec::new();
    let mut current: HashMap<(i32, i64), Sighting> = HashMap::new();
    let mut client = None;
    while !is_done() {
        let at = clock::now();
        let Ok(held) = look(&testbed.server, &mut client) else {
            over.extend(current.drain().map(|(_, seen)| seen));
            sleep(RETRY);
            continue;
        };
        for (backend, key) in held.iter().copied() {
            let seen = current.entry((backend, key)).or_insert(Sighting {
                backend,
                key,
                first: at,
                gone: at,
            });
            seen.gone = at;
        }
        let gone = current.extract_if(|lock, _| !held.contains(lock));
        over.extend(gone.map(|(_, seen)| Sighting { gone: at, ..seen }));
        sleep(PERIOD);
    }
    over.extend(current.into_values());
    over
}

/// What is held now, as the server says; a client that fails is given up.
pub fn look(
    server: &Server,
    client: &mut Option<Client>,
) -> Result<Vec<(i32, i64)>, postgres::Error> {
    let open = match client.take() {
        Some(open) => open,
        None => connect(server)?,
    };
    let rows = client.insert(open).query(HELD, &[]);
    let rows = rows.inspect_err(|_| *client = None)?;
    Ok(rows
        .iter()
        .map(|row| (row.get("pid"), row.get("key")))
        .collect())
}

fn connect(server: &Server) -> Result<Client, postgres::Error> {
    Config::new()
        .host_path(server.socket_dir())
        .port(server.port())
        .dbname("postgres")
        .user("postgres")
        .application_name("torture")
        .connect(NoTls)
}
