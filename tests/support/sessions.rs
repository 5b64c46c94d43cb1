//! What a test asks of a server through sessions of its own, independent of pglock.

use std::sync::atomic::{AtomicU32, Ordering};

use postgres::{Client, Config, NoTls};

use super::server::Server;

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

fn unique(kind: &str) -> String {
    static COUNT: AtomicU32 = AtomicU32::new(1);
    format!("{kind}_{}", COUNT.fetch_add(1, Ordering::Relaxed))
}
