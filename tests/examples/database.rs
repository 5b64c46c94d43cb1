//! The server that the examples speak of: `db.example`, with a certificate, and a password for each role.

use std::fs;

use crate::support::{Authorities, Machine, Server, holders};

/// Of every role.
pub const PASSWORD: &str = "of-a-test";

const ROLES: [&str; 3] = ["app", "deploy", "report"];

/// A server under the name `db.example`, with the database `app`, that lets nobody in by TCP but with TLS and a password.
pub struct Database {
    pub server: Server,
    authorities: Authorities,
}

impl Database {
    /// Starts one. Each subject has its own, since their locks have the same names.
    pub fn start() -> Self {
        let authorities = Authorities::found();
        authorities.certify("ca", "db", "db", "DNS:db.example", 2);
        let server = Server::start();
        authorities.equip(&server, "db");
        for role in ROLES {
            server.execute(&format!("CREATE ROLE {role} LOGIN PASSWORD '{PASSWORD}'"));
        }
        server.execute("CREATE DATABASE app OWNER app");
        let rules = "local all all trust\nhostssl all all all scram-sha-256\n";
        fs::write(server.data_dir().join("pg_hba.conf"), rules).unwrap();
        server.execute("SELECT pg_reload_conf()");
        Self {
            server,
            authorities,
        }
    }

    /// Lets a machine find the server by its name, and gives the certificate of its authority.
    pub fn introduce(&self, machine: &Machine) {
        let hosts = format!("127.0.0.1 localhost\n{} db.example\n", self.server.host());
        machine.install("/etc/hosts", &hosts, 0o644);
    }

    /// The certificate of the authority that `db.example` is certified by.
    pub fn root_certificate(&self) -> String {
        fs::read_to_string(self.authorities.file("ca.crt")).unwrap()
    }

    /// Whether anybody holds the lock of this name in the database `app`.
    pub fn is_held(&self, lock: &str) -> bool {
        let mut client = self.server.client_as("app", "postgres");
        !holders(&mut client, lock).is_empty()
    }
}

/// A file of `examples/`.
#[track_caller]
pub fn example(path: &str) -> String {
    let path = format!("{}/examples/{path}", env!("CARGO_MANIFEST_DIR"));
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}
