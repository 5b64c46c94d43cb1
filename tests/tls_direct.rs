//! TLS from the first byte on (`sslnegotiation=direct`), to a server of OpenSSL's own that does what PostgreSQL's never do.

use std::process::Command;

use crate::support::{Pglock, Running, Watchdog};

#[test]
fn a_server_that_requires_a_client_certificate() {
    const ALERT: &str =
        "the server requires a client certificate (sslcert and sslkey name its files)";
    assert_refused(&["-alpn", "postgresql", "-Verify", "1"], ALERT);
}

#[test]
fn a_server_that_requires_a_client_certificate_before_tls_1_3() {
    const ALERT: &str = "the server refused the TLS handshake: no cipher in common, or it requires a client certificate";
    let options = ["-alpn", "postgresql", "-tls1_2", "-Verify", "1"];
    assert_refused(&options, ALERT);
}

#[test]
fn a_server_of_another_protocol() {
    const ALERT: &str = "the server does not speak PostgreSQL's protocol over TLS";
    assert_refused(&["-alpn", "http/1.1"], ALERT);
}

#[test]
fn a_server_that_does_not_say_what_it_speaks() {
    const SILENT: &str = "the server does not say that it speaks PostgreSQL's protocol (sslnegotiation=direct needs PostgreSQL 17)";
    assert_refused(&[], SILENT);
}

/// Connects to `openssl s_server` with these options.
#[track_caller]
fn assert_refused(options: &[&str], reason: &str) {
    const CERTIFICATE: &str =
        "req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -keyout key -out crt";
    let scratch = Watchdog::start();
    let openssl = || {
        let mut command = Command::new("openssl");
        command.current_dir(scratch.directory());
        command
    };
    Running::start(openssl().args(CERTIFICATE.split(' ')))
        .wait()
        .assert_code(0);
    let mut server = Running::start(
        openssl()
            .args("s_server -accept 127.0.0.1:0 -cert crt -key key".split(' '))
            .args(options),
    );
    server.wait_output("its port", |server| port(server).is_some());
    let port = port(&server).unwrap();
    Pglock::without_server()
        .args(["try", "-d"])
        .arg(format!(
            "host=127.0.0.1 port={port} user=u sslmode=require sslnegotiation=direct"
        ))
        .args(["direct", "true"])
        .run()
        .assert_code(121)
        .assert_stdout("")
        .assert_stderr(&format!(
            "pglock: cannot connect to 127.0.0.1 port {port}: {reason}\n"
        ));
}

/// The port, out of `ACCEPT 127.0.0.1:40123`.
fn port(server: &Running) -> Option<String> {
    let said = server.stdout_so_far();
    let (_, port) = said
        .split_once("ACCEPT ")?
        .1
        .split_once('\n')?
        .0
        .rsplit_once(':')?;
    Some(port.to_owned())
}
