//! Encrypted connections: pglock beside psql, with certificates of every kind at both ends.

use std::fs;
use std::sync::OnceLock;

use nix::sys::signal::Signal;
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;

use crate::support::{Authorities, Case, Pglock, Place, Server, Watchdog, compare, until};

const MODES: [&str; 6] = [
    "disable",
    "allow",
    "prefer",
    "require",
    "verify-ca",
    "verify-full",
];

/// Connection strings, and for each what the server's certificate is for.
const HOSTS: [&str; 6] = [
    "host=localhost <named>",
    "host=nowhere.invalid <named>",
    "host=<address-of-numbered> <numbered>",
    "host=db.example.test <numbered>",
    "host=localhost <expired>",
    "host=localhost <foreign>",
];

// Parts of messages.
const EXPIRED: &str = ": the certificate of \"server\" expired on ";
const UNKNOWN_ISSUER: &str = ": the server's certificate is not trusted: unable to get local issuer certificate (sslrootcert names the file of the authority)\n";
/// OpenSSL 1.1 and 3 do not spell the rest alike.
const UNKNOWN_ROOT: &str = ": the server's certificate is not trusted: self";
const NO_COMMON_VERSION: &str = ": the server and pglock have no TLS version in common (ssl_min_protocol_version, ssl_max_protocol_version)\n";
const UNKNOWN_AUTHORITY: &str =
    ": the server refused the client certificate: it does not know its authority\n";

#[test]
fn every_sslmode_without_a_root_file() {
    compare_modes(&HOSTS[..2], Case::at);
}

#[test]
fn every_sslmode_with_a_root_file_in_the_home_directory() {
    compare_modes(&HOSTS, |case, host| {
        case.at(host).file(".postgresql/root.crt", "<ca.crt>")
    });
}

#[test]
fn every_sslmode_with_sslrootcert() {
    compare_modes(&HOSTS[4..], |case, host| {
        case.at(host)
            .file("other.crt", "<other.crt>")
            .env("PGSSLROOTCERT", "<home>/other.crt")
    });
}

#[track_caller]
fn compare_modes(hosts: &[&'static str], lead: impl Fn(Case, &'static str) -> Case) {
    let cases = hosts
        .iter()
        .flat_map(|host| MODES.map(|mode| lead(Case::new(mode).env("PGSSLMODE", mode), host)));
    compare(place(), &cases.collect::<Vec<_>>());
}

#[test]
fn what_verification_finds_out() {
    let with_root = |conninfo| {
        Case::new(conninfo)
            .at(conninfo)
            .file(".postgresql/root.crt", "<ca.crt>")
    };
    compare(
        place(),
        &[
            with_root("host=localhost <named> sslmode=verify-full")
                .reaches("<port-named> postgres keeper tcp tls"),
            with_root("host=nowhere.invalid <named> sslmode=verify-ca")
                .reaches("<port-named> postgres keeper tcp tls"),
            with_root("host=nowhere.invalid <named> sslmode=verify-full")
                .refused(": the server's certificate is for \"localhost\", not for host \"nowhere.invalid\"\n"),
            with_root("<named> sslmode=verify-full")
                .refused(": the server's certificate is for \"localhost\", not for host \"<address-of-named>\"\n"),
            with_root("host=<address-of-numbered> <numbered> sslmode=verify-full")
                .reaches("<port-numbered> postgres keeper tcp tls"),
            with_root("host=<address-of-spelt> <spelt> sslmode=verify-full")
                .reaches("<port-spelt> postgres keeper tcp tls"),
            with_root("host=<address-of-lettered> <lettered> sslmode=verify-full")
                .reaches("<port-lettered> postgres keeper tcp tls"),
            with_root("host=<address-of-spelt> <lettered> sslmode=verify-full")
                .refused(": the server's certificate is for \"<address-of-lettered>\", not for host \"<address-of-spelt>\"\n"),
            with_root("host=db.example.test <numbered> sslmode=verify-full")
                .reaches("<port-numbered> postgres keeper tcp tls"),
            with_root("host=a.db.example.test <numbered> sslmode=verify-full")
                .refused(": the server's certificate is for \"<address-of-numbered>\", \"*.example.test\", not for host \"a.db.example.test\"\n"),
            with_root("host=.example.test <numbered> sslmode=verify-full")
                .refused(": no certificate is for host \".example.test\"\n"),
            with_root("host=localhost <expired> sslmode=verify-ca").refused(EXPIRED),
            with_root("host=localhost <expired> sslmode=require").refused(EXPIRED),
            with_root("host=localhost <expired> sslmode=prefer")
                .reaches("<port-expired> postgres keeper tcp"),
            with_root("host=localhost <foreign> sslmode=verify-ca").refused(UNKNOWN_ISSUER),
            with_root("host=localhost <foreign> sslmode=require sslrootcert=<home>/missing")
                .reaches("<port-foreign> postgres keeper tcp tls"),
            with_root("host=localhost <foreign> sslmode=verify-ca sslrootcert=<home>/missing")
                .refused("missing"),
            Case::new("the certificate's common name where it has no other")
                .at("host=localhost <foreign> sslmode=verify-full sslrootcert=<home>/other.crt")
                .file("other.crt", "<other.crt>")
                .reaches("<port-foreign> postgres keeper tcp tls"),
            Case::new("a common name that is another's")
                .at("host=nowhere.invalid <foreign> sslmode=verify-full sslrootcert=<home>/other.crt")
                .file("other.crt", "<other.crt>")
                .refused(": the server's certificate is for \"localhost\", not for host \"nowhere.invalid\"\n"),
            Case::new("several roots in a file")
                .at("host=localhost <foreign> sslmode=verify-full sslrootcert=<home>/both.crt")
                .file("both.crt", "<ca.crt><other.crt>")
                .reaches("<port-foreign> postgres keeper tcp tls"),
            Case::new("a root file with nothing in it")
                .at("host=localhost <named> sslmode=require sslrootcert=<home>/none.crt")
                .file("none.crt", "no certificate\n")
                .refused("none.crt"),
            Case::new("sslrootcert=system")
                .at("host=localhost <named> sslrootcert=system")
                .without_peer()
                .refused(UNKNOWN_ROOT),
            Case::new("sslrootcert=system, which is that of SSL_CERT_FILE")
                .at("host=localhost <named> sslrootcert=system")
                .file("ca.crt", "<ca.crt>")
                .env("SSL_CERT_FILE", "<home>/ca.crt")
                .without_peer()
                .reaches("<port-named> postgres keeper tcp tls"),
            Case::new("the system's certificates where others are given")
                .at("host=localhost <named> sslmode=verify-ca sslrootcert=<home>/other.crt")
                .file("ca.crt", "<ca.crt>")
                .file("other.crt", "<other.crt>")
                .env("SSL_CERT_FILE", "<home>/ca.crt")
                .refused(UNKNOWN_ROOT),
            if Server::shared().version_num() >= 170_000 {
                direct("of a server that knows it").reaches("<port-named> postgres keeper tcp tls")
            } else {
                direct("of a server that is too old").refused("cannot connect")
            },
        ],
    );
}

/// psql may be too old for it.
fn direct(name: &'static str) -> Case {
    Case::new(name)
        .at("host=localhost <named> sslmode=require sslnegotiation=direct")
        .without_peer()
}

/// OpenSSL would wait for ever for somebody to write to the pipe.
#[test]
fn the_systems_certificates_are_read_only_when_they_are_asked_for() {
    let place = place();
    let home = Watchdog::start();
    let pipe = home.directory().join("bundle.crt");
    mkfifo(&pipe, Mode::S_IRWXU).unwrap();
    let root = home.directory().join("root.crt");
    fs::write(&root, place.word("<ca.crt>")).unwrap();
    for mode in MODES {
        let address = place.word("<named>");
        let root = root.display();
        Pglock::without_server()
            .env("SSL_CERT_FILE", &pipe)
            .args(["try", "-d"])
            .arg(format!(
                "host=localhost {address} sslmode={mode} sslrootcert={root}"
            ))
            .args(["systems-certificates", "true"])
            .run()
            .assert_code(0)
            .assert_silent();
    }
}

#[test]
fn a_file_that_does_not_come_to_an_end_keeps_nobody() {
    let place = place();
    let home = Watchdog::start();
    let pipe = home.directory().join("root.crt");
    mkfifo(&pipe, Mode::S_IRWXU).unwrap();
    let pglock = |limit: &[&str]| {
        let (address, root) = (place.word("<named>"), pipe.display());
        let conninfo = format!("host=localhost {address} sslmode=verify-full sslrootcert={root}");
        let pglock = Pglock::without_server().args(["run", "-d", &conninfo]);
        pglock.args(limit).args(["no-end", "echo", "ran"])
    };
    let late = pglock(&["--timeout", "300ms"]).run();
    late.assert_code(121).assert_stdout("").assert_one_message();
    let mut waiting = pglock(&[]).spawn();
    let threads = format!("/proc/{}/task", waiting.pid());
    until("a thread that reads", || {
        let threads = fs::read_dir(&threads).unwrap().flatten();
        let mut names =
            threads.filter_map(|thread| fs::read_to_string(thread.path().join("comm")).ok());
        names.any(|name| name == "tls-files\n")
    });
    waiting.signal(Signal::SIGTERM);
    waiting.wait().assert_code(143).assert_stdout("");
}

#[test]
fn files_count_only_once_the_server_has_agreed_to_tls() {
    let case = |conninfo| {
        Case::new(conninfo)
            .at(conninfo)
            .file(".postgresql/root.crt", "no certificate\n")
            .file(".postgresql/postgresql.crt", "no certificate\n")
            .file(".postgresql/postgresql.key", "no key\n")
    };
    compare(
        place(),
        &[
            case("host=localhost <plain> sslmode=allow")
                .reaches("<port-plain> postgres postgres tcp"),
            case("host=localhost <plain> sslmode=prefer")
                .reaches("<port-plain> postgres postgres tcp"),
            case("host=localhost <plain> sslmode=verify-full sslrootcert=<home>/missing")
                .refused("the server does not support TLS"),
            case("host=localhost <named> sslmode=allow")
                .reaches("<port-named> postgres keeper tcp"),
            case("host=localhost <named> sslmode=prefer")
                .reaches("<port-named> postgres keeper tcp"),
            case("host=localhost <named> sslmode=require").refused("root.crt"),
            case("host=<socket-of-plain> port=<port-plain> user=postgres dbname=postgres sslmode=verify-full sslrootcert=<home>/missing")
                .reaches("<port-plain> postgres postgres socket"),
        ],
    );
}

#[test]
fn what_the_server_insists_on() {
    let case = |conninfo| Case::new(conninfo).at(conninfo);
    compare(
        place(),
        &[
            case("host=localhost <named> user=shielded sslmode=disable").refused("pg_hba.conf"),
            case("host=localhost <named> user=shielded sslmode=allow").reaches("<port-named> postgres shielded tcp tls"),
            case("host=localhost <named> user=shielded sslmode=prefer").reaches("<port-named> postgres shielded tcp tls"),
            case("host=localhost <named> user=shielded sslmode=require").reaches("<port-named> postgres shielded tcp tls"),
            case("host=localhost <named> user=bare sslmode=disable").reaches("<port-named> postgres bare tcp"),
            case("host=localhost <named> user=bare sslmode=allow").reaches("<port-named> postgres bare tcp"),
            case("host=localhost <named> user=bare sslmode=prefer").reaches("<port-named> postgres bare tcp"),
            case("host=localhost <named> user=bare sslmode=require").refused("pg_hba.conf"),
            case("host=localhost <named> user=nobody sslmode=allow").refused("pg_hba.conf"),
            case("host=localhost <named> user=nobody sslmode=prefer").refused("pg_hba.conf"),
            case("host=localhost <named> user=keeper sslmode=allow").reaches("<port-named> postgres keeper tcp"),
            case("host=localhost <named> user=sealed password='s3cret s' sslmode=require").reaches("<port-named> postgres sealed tcp tls"),
            case("host=localhost <named> user=sealed password='s3cret s' channel_binding=require").reaches("<port-named> postgres sealed tcp tls"),
            case("host=localhost <named> user=sealed password='s3cret s' channel_binding=disable").reaches("<port-named> postgres sealed tcp tls"),
            case("host=localhost <named> user=sealed password='s3cret s' channel_binding=require sslmode=disable").refused("channel binding"),
            case("host=localhost <named> user=sealed password=s3cret channel_binding=require").refused("authentication failed"),
            case("host=localhost <named> user=keeper channel_binding=require").refused("channel binding"),
            case("host=localhost <named> ssl_max_protocol_version=TLSv1.2 sslmode=require").reaches("<port-named> postgres keeper tcp tls"),
            case("host=localhost <named> ssl_min_protocol_version=TLSv1.3 sslmode=require").reaches("<port-named> postgres keeper tcp tls"),
            case("host=localhost <foreign> ssl_min_protocol_version=TLSv1.3 sslmode=require").refused(NO_COMMON_VERSION),
            case("host=localhost <named> ssl_min_protocol_version=TLSv1 ssl_max_protocol_version=TLSv1.1 sslmode=require").refused(NO_COMMON_VERSION),
            case("host=localhost <foreign> user=sealed password='s3cret s' channel_binding=require").reaches("<port-foreign> postgres sealed tcp tls"),
            case("host=localhost <named> ssl_min_protocol_version='' sslmode=require"),
            case("host=localhost <named> sslsni=0 sslmode=require").reaches("<port-named> postgres keeper tcp tls"),
            case("postgresql://keeper@localhost:<port-named>/postgres?hostaddr=<address-of-named>&ssl=true").reaches("<port-named> postgres keeper tcp tls"),
        ],
    );
}

#[test]
fn revoked_certificates() {
    let with_root = |name| Case::new(name).file(".postgresql/root.crt", "<ca.crt>");
    let revoking = |name| with_root(name).file(".postgresql/root.crl", "<revoking.crl>");
    compare(
        place(),
        &[
            revoking("a list in the home directory")
                .at("host=localhost <named> sslmode=verify-full")
                .refused(": the server's certificate is not trusted: certificate revoked\n"),
            revoking("a list where only encryption is asked for")
                .at("host=localhost <named> sslmode=require")
                .refused("certificate revoked"),
            revoking("a certificate that is not on the list")
                .at("host=db.example.test <numbered> sslmode=verify-full")
                .reaches("<port-numbered> postgres keeper tcp tls"),
            revoking("another list, which is empty")
                .at("host=localhost <named> sslmode=verify-full sslcrl=<home>/empty.crl")
                .file("empty.crl", "<empty.crl>")
                .reaches("<port-named> postgres keeper tcp tls"),
            with_root("a list in a variable")
                .at("host=localhost <named> sslmode=verify-full")
                .file("given.crl", "<revoking.crl>")
                .env("PGSSLCRL", "<home>/given.crl")
                .refused("certificate revoked"),
            revoking("a list that is not there")
                .at("host=localhost <named> sslmode=verify-full sslcrl=<home>/missing.crl")
                .reaches("<port-named> postgres keeper tcp tls"),
            revoking("a directory without a list for the issuer")
                .at("host=localhost <named> sslmode=verify-full sslcrldir=<home>")
                .refused("unable to get certificate CRL"),
            Case::new("a list without a root")
                .at("host=localhost <named> sslmode=require")
                .file(".postgresql/root.crl", "<revoking.crl>")
                .reaches("<port-named> postgres keeper tcp tls"),
        ],
    );
}

#[test]
fn client_certificates() {
    const AS_CLIENT: &str = "<port-named> postgres client tcp tls /CN=client";
    let with_key = |name, key| {
        Case::new(name)
            .at("host=localhost <named> user=client")
            .file(".postgresql/postgresql.crt", "<client.crt>")
            .file(".postgresql/postgresql.key", key)
    };
    let stranger = |conninfo| {
        Case::new(conninfo)
            .at(conninfo)
            .file(".postgresql/postgresql.crt", "<stranger.crt>")
            .file(".postgresql/postgresql.key", "<stranger.key>")
    };
    let given = |conninfo| {
        Case::new(conninfo)
            .at(conninfo)
            .file("c.crt", "<client.crt>")
            .file("c.key", "<client.key>")
            .file("encrypted.key", "<encrypted.key>")
            .file_with_mode("open.key", 0o644, "<client.key>")
    };
    compare(
        place(),
        &[
            with_key("PKCS #8", "<client.key>").reaches(AS_CLIENT),
            with_key("PKCS #1", "<pkcs1.key>").reaches(AS_CLIENT),
            with_key("another's key", "<other.key>").refused("postgresql.key\" does not belong to certificate file "),
            with_key("no key", "s3cret").refused("postgresql.key"),
            with_key("encrypted, without sslpassword", "<encrypted.key>").without_peer().refused("postgresql.key"),
            Case::new("a certificate where none is needed")
                .at("host=localhost <named>")
                .file(".postgresql/postgresql.crt", "<client.crt>")
                .file(".postgresql/postgresql.key", "<client.key>")
                .reaches("<port-named> postgres keeper tcp tls /CN=client"),
            Case::new("none, of a server that wants one").at("host=localhost <named> user=client sslmode=require").refused("certificate"),
            Case::new("a certificate without its key")
                .at("host=localhost <named> user=client sslmode=require")
                .file(".postgresql/postgresql.crt", "<client.crt>")
                .refused("postgresql.key"),
            Case::new("a key without its certificate")
                .at("host=localhost <named> sslmode=require")
                .file(".postgresql/postgresql.key", "<client.key>")
                .reaches("<port-named> postgres keeper tcp tls"),
            stranger("host=localhost <named> sslmode=require").refused(UNKNOWN_AUTHORITY),
            stranger("host=localhost <foreign> sslmode=require").refused(UNKNOWN_AUTHORITY),
            stranger("host=localhost <named> sslmode=prefer"),
            stranger("host=localhost <foreign> sslmode=prefer"),
            Case::new("one that has expired")
                .at("host=localhost <named> sslmode=require")
                .file(".postgresql/postgresql.crt", "<stale.crt>")
                .file(".postgresql/postgresql.key", "<stale.key>")
                .refused(": the server refused the client certificate: it has expired\n"),
            Case::new("a file without a certificate")
                .at("host=localhost <named> sslmode=require")
                .file(".postgresql/postgresql.crt", "<client.key>")
                .file(".postgresql/postgresql.key", "<client.key>")
                .refused("postgresql.crt\": no certificate found\n"),
            Case::new("one with those between it and the authority")
                .at("host=localhost <named> user=client")
                .file(".postgresql/postgresql.crt", "<inner.crt><middle.crt>")
                .file(".postgresql/postgresql.key", "<inner.key>")
                .reaches(AS_CLIENT),
            Case::new("one without those between it and the authority")
                .at("host=localhost <named> sslmode=require")
                .file(".postgresql/postgresql.crt", "<inner.crt>")
                .file(".postgresql/postgresql.key", "<inner.key>")
                .refused(UNKNOWN_AUTHORITY),
            given("host=localhost <named> user=client sslcert=<home>/c.crt sslkey=<home>/c.key").reaches(AS_CLIENT),
            given("host=localhost <named> user=client sslcert=<home>/c.crt sslkey=<home>/encrypted.key sslpassword=s3cret-key").reaches(AS_CLIENT),
            given("host=localhost <named> user=client sslcert=<home>/c.crt sslkey=<home>/encrypted.key sslpassword=s3cret").refused("encrypted.key"),
            given("host=localhost <named> user=client sslmode=require sslcert=<home>/c.crt sslkey=<home>/open.key").refused("group or world access"),
            given("host=localhost <named> sslmode=prefer sslcert=<home>/c.crt sslkey=<home>/open.key").reaches("<port-named> postgres keeper tcp"),
            given("host=localhost <named> sslmode=require sslcert=<home>/c.crt sslkey=<home>/missing.key").refused("missing.key"),
            given("host=localhost <named> sslmode=require sslcert=<home>/missing.crt sslkey=<home>/c.key").reaches("<port-named> postgres keeper tcp tls"),
            given("host=localhost <named> user=client sslcert=<home>/c.crt sslkey=<home>/pkcs1.key sslpassword=s3cret-key")
                .file("pkcs1.key", "<encrypted-pkcs1.key>")
                .reaches(AS_CLIENT),
            Case::new("in variables")
                .at("host=localhost <named> user=client")
                .file("c.crt", "<client.crt>")
                .file("c.key", "<client.key>")
                .env("PGSSLCERT", "<home>/c.crt")
                .env("PGSSLKEY", "<home>/c.key")
                .reaches(AS_CLIENT),
        ],
    );
}

/// Servers with TLS, which differ in their certificates.
fn place() -> &'static Place {
    static PLACE: OnceLock<Place> = OnceLock::new();
    static SERVERS: OnceLock<[Server; 6]> = OnceLock::new();
    PLACE.get_or_init(|| {
        let authorities = Authorities::found();
        let servers = SERVERS.get_or_init(|| {
            let servers = [(); 6].map(|()| Server::start());
            let address = format!("IP:{},DNS:*.example.test", servers[1].host());
            let lettered = format!("DNS:{}", servers[5].host());
            let certificates = [
                ("named", "ca", "server", "DNS:localhost", 2),
                ("numbered", "ca", "server", &address, 2),
                ("expired", "ca", "server", "DNS:localhost", -1),
                ("foreign", "other", "localhost", "", 2),
                ("spelt", "ca", servers[4].host(), "DNS:nowhere.invalid", 2),
                ("lettered", "ca", "server", &lettered, 2),
            ];
            for (server, (name, authority, subject, names, days)) in
                servers.iter().zip(certificates)
            {
                authorities.certify(authority, name, subject, names, days);
                authorities.equip(server, name);
            }
            servers[3].execute("ALTER SYSTEM SET ssl_max_protocol_version = 'TLSv1.2'");
            servers[3].execute("SELECT pg_reload_conf()");
            servers
        });
        authorities.certify("ca", "client", "client", "", 2);
        authorities.certify("other", "stranger", "client", "", 2);
        authorities.certify("ca", "stale", "client", "", -1);
        authorities.empower("middle");
        authorities.certify("middle", "inner", "client", "", 2);
        authorities.list_revoked("empty", None);
        authorities.list_revoked("revoking", Some("named"));
        authorities.convert_key("rsa -traditional", "client", "pkcs1");
        authorities.convert_key(
            "pkcs8 -topk8 -passout pass:s3cret-key",
            "client",
            "encrypted",
        );
        authorities.convert_key(
            "rsa -aes256 -traditional -passout pass:s3cret-key",
            "client",
            "encrypted-pkcs1",
        );
        let mut words: Vec<(&'static str, String)> = [
            ("<ca.crt>", "ca.crt"),
            ("<other.crt>", "other.crt"),
            ("<other.key>", "other.key"),
            ("<client.crt>", "client.crt"),
            ("<client.key>", "client.key"),
            ("<stranger.crt>", "stranger.crt"),
            ("<stranger.key>", "stranger.key"),
            ("<stale.crt>", "stale.crt"),
            ("<stale.key>", "stale.key"),
            ("<middle.crt>", "middle.crt"),
            ("<inner.crt>", "inner.crt"),
            ("<inner.key>", "inner.key"),
            ("<revoking.crl>", "revoking.crl"),
            ("<empty.crl>", "empty.crl"),
            ("<pkcs1.key>", "pkcs1.key"),
            ("<encrypted.key>", "encrypted.key"),
            ("<encrypted-pkcs1.key>", "encrypted-pkcs1.key"),
        ]
        .map(|(word, file)| (word, fs::read_to_string(authorities.file(file)).unwrap()))
        .into();
        let addresses = [
            ("<named>", "<address-of-named>", "<port-named>"),
            ("<numbered>", "<address-of-numbered>", "<port-numbered>"),
            ("<expired>", "<address-of-expired>", "<port-expired>"),
            ("<foreign>", "<address-of-foreign>", "<port-foreign>"),
            ("<spelt>", "<address-of-spelt>", "<port-spelt>"),
            ("<lettered>", "<address-of-lettered>", "<port-lettered>"),
        ];
        for (server, (place, address, port)) in servers.iter().zip(addresses) {
            let (host, number) = (server.host(), server.port());
            words.push((
                place,
                format!("hostaddr={host} port={number} user=keeper dbname=postgres"),
            ));
            words.push((address, host.to_owned()));
            words.push((port, number.to_string()));
        }
        let plain = Server::shared();
        let (host, number) = (plain.host(), plain.port());
        words.push((
            "<plain>",
            format!("hostaddr={host} port={number} user=postgres dbname=postgres"),
        ));
        words.push(("<port-plain>", number.to_string()));
        words.push((
            "<socket-of-plain>",
            plain.socket_dir().display().to_string(),
        ));
        Place {
            servers: servers.iter().chain([plain]).collect(),
            words,
        }
    })
}
