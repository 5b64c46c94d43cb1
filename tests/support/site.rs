//! A pooler, and a database of its own behind it, for tests of what is left on its backends.

use std::collections::BTreeSet;

use postgres::{Client, SimpleQueryMessage, SimpleQueryRow};

use super::pglock::Pglock;
use super::pooler::{PoolMode, Pooler};
use super::server::Server;
use super::wait::until;

/// A pooler, and a database of its own behind it.
pub struct Site {
    pub server: &'static Server,
    pub database: String,
    pub pooler: Pooler,
    pub mode: PoolMode,
    pool_size: usize,
}

impl Site {
    /// In front of the server that all tests share.
    #[track_caller]
    pub fn new(mode: PoolMode, pool_size: usize, settings: &[&str]) -> Self {
        let server = Server::shared();
        let pooler = Pooler::start(server, mode, pool_size, settings);
        Self::of(server, pooler, mode, pool_size)
    }

    /// The same behind a pooler that runs already.
    pub fn of(server: &'static Server, pooler: Pooler, mode: PoolMode, pool_size: usize) -> Self {
        let database = server.database();
        server.execute(&format!(
            "ALTER DATABASE {database} SET default_transaction_isolation = 'repeatable read'"
        ));
        Self {
            server,
            database,
            pooler,
            mode,
            pool_size,
        }
    }

    /// pglock, through the pooler.
    pub fn pooled(&self) -> Pglock {
        self.direct()
            .envs(self.pooler.env())
            .env("PGDATABASE", &self.database)
    }

    /// pglock, past the pooler.
    pub fn direct(&self) -> Pglock {
        Pglock::new(self.server).env("PGDATABASE", &self.database)
    }

    /// A superuser's session past the pooler.
    pub fn server_client(&self) -> Client {
        self.server.client_as(&self.database, "postgres")
    }

    /// Asserts that no backend of the pool has a lock, or a setting that the pooler did not make.
    #[track_caller]
    pub fn assert_untouched(&self) {
        let mut client = self.server_client();
        let stranded = "SELECT FROM pg_locks WHERE locktype = 'advisory' AND database = \
            (SELECT oid FROM pg_database WHERE datname = current_database())";
        assert!(client.query(stranded, &[]).unwrap().is_empty());

        let mut unseen = other_backends(&mut client);
        // In the other modes PgBouncer may have closed the backend of a client that it was not content with.
        let may_be_none = self.mode != PoolMode::Transaction;
        assert!(
            may_be_none || !unseen.is_empty(),
            "backends that pglock used"
        );
        // Whoever is in a transaction has a backend for himself; a single statement is given any.
        let (begin, clients) = match self.mode {
            PoolMode::Statement => ("", 1),
            PoolMode::Session | PoolMode::Transaction => ("BEGIN; ", self.pool_size),
        };
        let look = format!("{begin}{SET_IN_THE_SESSION}");
        let mut others: Vec<Client> = (0..clients)
            .map(|_| self.pooler.client(&self.database))
            .collect();
        until("a look at each backend", || {
            for other in &mut others {
                let row = one_row(other, &look);
                assert_eq!(row.get("settings"), Some(""));
                assert_eq!(row.get("application_name"), Some("test"));
                unseen.remove(row.get("pid").unwrap());
            }
            let backends = other_backends(&mut client);
            unseen.retain(|pid| backends.contains(pid));
            unseen.is_empty()
        });
    }
}

/// The processes of all other sessions in the session's database.
fn other_backends(client: &mut Client) -> BTreeSet<String> {
    let query = "SELECT pid::text FROM pg_stat_activity \
        WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid()";
    let rows = client.query(query, &[]).unwrap();
    rows.iter().map(|row| row.get(0)).collect()
}

/// `PgBouncer` itself sets those that clients announce when they connect. The isolation level of the transaction counts
/// as set once it was, but each transaction begins with the default.
const SET_IN_THE_SESSION: &str = "
    SELECT pg_backend_pid() AS pid, current_setting('application_name') AS application_name,
        (SELECT coalesce(string_agg(name || ' = ' || setting, ', '), '') FROM pg_settings WHERE source = 'session'
            AND lower(name) NOT IN ('application_name', 'client_encoding', 'datestyle', 'standard_conforming_strings',
                'timezone')
            AND (name <> 'transaction_isolation' OR setting <> 'repeatable read')) AS settings";

fn one_row(client: &mut Client, query: &str) -> SimpleQueryRow {
    let messages = client.simple_query(query).unwrap();
    let row = messages.into_iter().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => Some(row),
        _ => None,
    });
    row.expect("a row")
}
