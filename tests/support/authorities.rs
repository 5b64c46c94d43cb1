//! Certification authorities, made with openssl, and servers with what they sign.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::child::Running;
use super::server::{Server, Shutdown};
use super::watchdog::Watchdog;

/// Two certification authorities, `ca` and `other`, and a directory for what they sign.
pub struct Authorities {
    scratch: Watchdog,
}

impl Authorities {
    /// Makes the two.
    pub fn found() -> Self {
        let authorities = Self {
            scratch: Watchdog::start(),
        };
        for name in ["ca", "other"] {
            let request = format!(
                "req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN={name} -keyout {name}.key -out {name}.crt"
            );
            authorities.openssl(&request);
        }
        authorities
    }

    /// A file of theirs, by its name.
    pub fn file(&self, name: &str) -> PathBuf {
        self.scratch.directory().join(name)
    }

    fn openssl(&self, words: &str) {
        let mut openssl = Command::new("openssl");
        openssl
            .args(words.split(' '))
            .current_dir(self.scratch.directory());
        Running::start(&mut openssl).wait().assert_code(0);
    }

    /// Makes `name`.crl, in which `ca` revokes this certificate.
    pub fn list_revoked(&self, name: &str, certificate: Option<&str>) {
        let configuration = "[ca]\ndefault_ca = ca\n[ca]\ndatabase = revoked\ndefault_md = sha256\n\
            default_crl_days = 2\n";
        fs::write(self.file("ca.cnf"), configuration).unwrap();
        fs::write(self.file("revoked"), "").unwrap();
        let by_ca = "ca -config ca.cnf -cert ca.crt -keyfile ca.key";
        if let Some(certificate) = certificate {
            self.openssl(&format!("{by_ca} -revoke {certificate}.crt"));
        }
        self.openssl(&format!("{by_ca} -gencrl -out {name}.crl"));
    }

    /// Makes `name`.key and `name`.crt, for these alternative names if there are any.
    pub fn certify(&self, authority: &str, name: &str, subject: &str, names: &str, days: i32) {
        let alternative = if names.is_empty() {
            String::new()
        } else {
            format!(" -addext subjectAltName={names}")
        };
        self.openssl(&format!("req -newkey rsa:2048 -nodes -subj /CN={subject}{alternative} -keyout {name}.key -out {name}.csr"));
        self.openssl(&format!(
            "x509 -req -in {name}.csr -CA {authority}.crt -CAkey {authority}.key -CAcreateserial -days {days} -copy_extensions copy -out {name}.crt"
        ));
    }

    /// Makes an authority out of what `ca` signs.
    pub fn empower(&self, name: &str) {
        self.openssl(&format!("req -newkey rsa:2048 -nodes -subj /CN={name} -addext basicConstraints=critical,CA:TRUE -keyout {name}.key -out {name}.csr"));
        self.openssl(&format!(
            "x509 -req -in {name}.csr -CA ca.crt -CAkey ca.key -CAcreateserial -days 2 -copy_extensions copy -out {name}.crt"
        ));
    }

    /// Writes the key of `from` to `to`.key in another form.
    pub fn convert_key(&self, how: &str, from: &str, to: &str) {
        self.openssl(&format!("{how} -in {from}.key -out {to}.key"));
    }

    /// Gives the server this certificate, and a role for each way to be let in.
    pub fn equip(&self, server: &Server, certificate: &str) {
        const RULES: &str = "\
            local all all trust\n\
            host all keeper all trust\n\
            hostssl all shielded all trust\n\
            hostnossl all bare all trust\n\
            hostssl all client all cert\n\
            host all sealed all scram-sha-256\n";
        for role in ["keeper", "shielded", "bare", "client", "sealed", "nobody"] {
            server.execute(&format!("CREATE ROLE {role} LOGIN PASSWORD 's3cret s'"));
        }
        for setting in ["ssl = on", "ssl_ca_file = 'ca.crt'"] {
            server.execute(&format!("ALTER SYSTEM SET {setting}"));
        }
        let data = server.data_dir();
        for (from, to) in [
            ("ca.crt", "ca.crt"),
            (&format!("{certificate}.crt"), "server.crt"),
            (&format!("{certificate}.key"), "server.key"),
        ] {
            fs::copy(self.file(from), data.join(to)).unwrap();
            give_to_owner_of(&data, &data.join(to));
        }
        fs::write(data.join("pg_hba.conf"), RULES).unwrap();
        server.stop(Shutdown::Fast);
        server.start_again();
    }
}

/// The server reads its key only if that is its own and nobody else's to read.
fn give_to_owner_of(directory: &Path, file: &Path) {
    let owner = fs::metadata(directory).unwrap();
    fs::set_permissions(file, Permissions::from_mode(0o600)).unwrap();
    chown(file, Some(owner.uid()), Some(owner.gid())).unwrap();
}
