//! TLS on a server of a test.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::process::Command;

use super::child::Running;
use super::server::{Server, Shutdown};

impl Server {
    /// Starts the server again, and with TLS, under a certificate that nobody else has signed.
    #[track_caller]
    pub fn restart_with_tls(&self) {
        self.execute("ALTER SYSTEM SET ssl = on");
        make_certificate(self);
        self.stop(Shutdown::Fast);
        self.start_again();
    }
}

/// A certificate signed by itself, and its key, as the server wants them: its own, and nobody else's to read.
fn make_certificate(server: &Server) {
    let data = server.data_dir();
    let (key, certificate) = (data.join("server.key"), data.join("server.crt"));
    let options =
        "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=test";
    let mut openssl = Command::new("openssl");
    openssl
        .args(options.split(' '))
        .args(["-keyout".as_ref(), key.as_os_str()])
        .args(["-out".as_ref(), certificate.as_os_str()]);
    Running::start(&mut openssl).wait().assert_code(0);
    let owner = fs::metadata(&data).unwrap();
    for file in [key, certificate] {
        fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
        chown(&file, Some(owner.uid()), Some(owner.gid())).unwrap();
    }
}
