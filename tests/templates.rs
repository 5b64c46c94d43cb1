//! `{namespace}` and `{shard:N}`: one connection string that leads each lock to its place.

use std::fs;
use std::os::unix::fs::symlink;
use std::sync::OnceLock;

use crate::support::{Finished, Pglock, Server, Watchdog};

/// SHA-256 of the name, its first 8 bytes unsigned, modulo each of these; they must hold for ever.
const COUNTS: [u64; 5] = [1, 3, 4, 7, 1024];
const SHARDS: [(&str, [u64; 5]); 5] = [
    ("my_lock", [0, 2, 2, 6, 922]),
    ("nightly-report", [0, 2, 3, 0, 135]),
    ("deploy", [0, 2, 0, 3, 780]),
    ("größe", [0, 0, 3, 2, 1023]),
    ("a b", [0, 0, 2, 2, 722]),
];

/// Where `spread_{shard:4}` leads: of four databases, one is home to two of these, and two to none.
const LIVES_IN: [(&str, &str); 3] = [
    ("my_lock", "spread_2"),
    ("nightly-report", "spread_3"),
    ("a b", "spread_2"),
];

#[test]
fn a_name_leads_to_its_shard() {
    for (name, shards) in SHARDS {
        for (count, shard) in COUNTS.into_iter().zip(shards) {
            let template = format!("host=/nonexistent/{{shard:{count}}} port=1");
            let refused = Pglock::without_server()
                .args(["try", "-d", &template, name, "true"])
                .run();
            refused
                .assert_code(121)
                .assert_stderr_has(&format!("/nonexistent/{shard} port 1"));
        }
    }
}

#[test]
fn the_databases_of_one_server_share_the_locks() {
    for (name, database) in LIVES_IN {
        for words in [
            &["run", "-v", name, "true"][..],
            &["try", "-v", "-N", "ns", name, "true"],
        ] {
            assert_reaches(&spread(server()).args(words).run(), database);
        }
        let option = ["try", "-v", "-d", "spread_{shard:4}", name, "true"];
        assert_reaches(&Pglock::new(server()).args(option).run(), database);
    }
    // A raw key's name is the key as it is shown.
    for key in ["42", "+42"] {
        assert_reaches(
            &spread(server())
                .args(["run", "-v", "--raw", key, "true"])
                .run(),
            "spread_1",
        );
    }
}

#[test]
fn a_namespace_that_looks_like_a_uri_is_a_databases_name_all_the_same() {
    let server = Server::start();
    server.execute("CREATE DATABASE \"a://b\"");
    let words = [
        "run",
        "-v",
        "-d",
        "{namespace}",
        "-N",
        "a://b",
        "my_lock",
        "true",
    ];
    assert_reaches(&Pglock::new(&server).args(words).run(), "a://b");
}

#[test]
fn check_shows_every_shard_in_order() {
    let checked = spread(server()).args(["check", "--json"]).run();
    let lines = checked.assert_code(0).assert_stderr("").stdout.clone();
    let found = serde_json::Deserializer::from_str(&lines).into_iter::<serde_json::Value>();
    let databases: Vec<String> = found
        .map(|object| object.unwrap()["server"]["database"].to_string())
        .collect();
    let all = ["spread_0", "spread_1", "spread_2", "spread_3"].map(|name| format!("{name:?}"));
    assert_eq!(databases, all);

    // One that cannot hold a lock decides, and the others are shown all the same.
    let missing = [
        "check",
        "--json",
        "-d",
        "{namespace}_{shard:5}",
        "-N",
        "spread",
    ];
    let checked = Pglock::new(server()).args(missing).run();
    checked
        .assert_code(121)
        .assert_one_message()
        .assert_stderr_has("database \"spread_4\" does not exist")
        .assert(
            checked.stdout.matches("\"fit\": true").count() == 4,
            "four that are fit",
        );
    Pglock::new(server())
        .args(["check", "-d", "{namespace}"])
        .run()
        .assert_code(125)
        .assert_stdout("")
        .assert_one_message();
}

#[test]
fn the_hosts_may_be_the_shards() {
    let servers = [Server::start(), Server::start()];
    let scratch = Watchdog::start();
    for (number, server) in servers.iter().enumerate() {
        make_way(&scratch, number, server);
        server.execute(&format!("CREATE DATABASE \"ns {number}\""));
    }
    for (name, number) in [("my_lock", 0), ("nightly-report", 1)] {
        let namespace = format!("ns {number}");
        let words = ["run", "-v", "-N", &namespace, name, "true"];
        let pglock = by_ways(&scratch, "{namespace}");
        assert_reaches(&pglock.args(words).run(), &namespace);
    }
}

#[test]
fn a_shard_that_cannot_be_reached_leaves_all_locks_as_they_are() {
    let server = Server::start();
    let scratch = Watchdog::start();
    make_way(&scratch, 0, &server);
    let pglock = || by_ways(&scratch, "postgres");
    let holder = pglock().hold("my_lock");
    for words in [
        &["release", "-f", "my_lock", "nightly-report"][..],
        &["list", "my_lock", "nightly-report"],
        &["list"],
    ] {
        pglock()
            .args(words)
            .run()
            .assert_code(121)
            .assert_stdout("")
            .assert_one_message()
            .assert_stderr_has("/s1 port 5432");
    }
    holder.let_go().assert_code(0).assert_stderr("");
}

/// Makes the directory `sN` a way to the server: shards whose names differ in the number only.
fn make_way(scratch: &Watchdog, number: usize, server: &Server) {
    let directory = scratch.directory().join(format!("s{number}"));
    fs::create_dir(&directory).unwrap();
    let socket = server
        .socket_dir()
        .join(format!(".s.PGSQL.{}", server.port()));
    symlink(socket, directory.join(".s.PGSQL.5432")).unwrap();
}

/// pglock with its locks spread over `s0` and `s1`.
fn by_ways(scratch: &Watchdog, database: &str) -> Pglock {
    let directory = scratch.directory().to_str().unwrap().replace('/', "%2F");
    let url = format!("postgres://postgres@{directory}%2Fs{{shard:2}}/{database}");
    Pglock::without_server().env("PGLOCK_URL", url)
}

#[test]
fn list_and_release_follow_the_names() {
    // Whose locks are all of this test.
    let server = start();
    let spread = || spread(&server);
    let holders: Vec<_> = LIVES_IN
        .iter()
        .map(|(name, _)| spread().hold(name))
        .collect();
    let names = LIVES_IN.map(|(name, _)| name);
    let list = |words: &[&str]| {
        let listed = spread().args(["list", "--format", "csv"]).args(words).run();
        listed.assert_code(0).assert_stderr("");
        let rows = listed.stdout.lines().skip(1);
        rows.map(|row| row.split(',').next().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    for name in names {
        assert_eq!(list(&[name]), [name]);
    }
    let by_shard = ["my_lock", "a b", "nightly-report"];
    assert_eq!(list(&[]), by_shard);
    assert_eq!(list(&names), by_shard);
    assert_eq!(list(&["*-report", "my_*"]), ["my_lock", "nightly-report"]);
    // The databases of one server, of which each shows all.
    assert_eq!(list(&["--all-databases"]).len(), names.len());
    assert_eq!(list(&["--all-databases", names[0], names[1]]).len(), 2);
    spread()
        .args(["list", "-q", "nobody-holds-this"])
        .run()
        .assert_code(1)
        .assert_silent();

    let elsewhere = Pglock::new(&server).env("PGDATABASE", "spread_0");
    elsewhere
        .args(["list", "-q", "my_lock"])
        .run()
        .assert_code(1);
    spread()
        .args(["release", "-f"])
        .args(names)
        .run()
        .assert_code(0)
        .assert_silent();
    for holder in holders {
        holder.wait().assert_code(123);
    }
    assert_eq!(list(&[]), [""; 0]);
}

#[test]
fn a_namespace_is_nothing_but_a_name() {
    let server = server();
    let hostile = r#"x'/@h,?user=nobody&%41 dbname=\y" host=evil"#;
    server.execute(&format!(
        "CREATE DATABASE \"{}\"",
        hostile.replace('"', "\"\"")
    ));
    let (host, port) = (server.host(), server.port());
    for template in [
        format!("postgres://postgres@{host}:{port}/{{namespace}}"),
        format!("postgres://postgres@{host}:{port}?dbname={{namespace}}"),
        format!("host={host} port={port} user=postgres dbname={{namespace}}"),
        format!("dbname='{{namespace}}' host={host} port={port} user=postgres"),
        "{namespace}".to_owned(),
    ] {
        let words = [
            "run", "-v", "-d", &template, "-N", hostile, "quoted", "true",
        ];
        let reached = Pglock::new(server).args(words).run();
        reached.assert_code(0).assert_stdout("");
        reached.assert_stderr_has(&format!("connected to database {hostile} as postgres"));
    }
    for parameter in ["host", "hostaddr", "passfile", "service", "sslrootcert"] {
        let template = format!("postgres://?{parameter}=a{{namespace}}");
        let words = [
            "run", "-d", &template, "-N", hostile, "quoted", "echo", "ran",
        ];
        let refused = Pglock::new(server).args(words).run();
        assert_usage_error(&refused, parameter);
    }
}

#[test]
fn a_namespace_that_is_missing_is_a_usage_error() {
    let template = "postgres://db.invalid/{namespace}";
    let pglock = || Pglock::without_server().env("PGLOCK_URL", template);
    for words in [
        &["run", "x", "echo", "ran"][..],
        &["try", "--raw", "1", "echo", "ran"],
        &["list"],
        &["list", "x"],
        &["release", "-f", "x"],
    ] {
        assert_usage_error(
            &pglock().args(words).run(),
            "--namespace or PGLOCK_NAMESPACE",
        );
    }
    // Nothing is missing where it does not count.
    let by_option = ["list", "-q", "-d", &uri(server(), "postgres"), "x"];
    pglock().args(by_option).run().assert_code(1);
    pglock().args(["key", "42"]).run().assert_code(0);
    let by_variable = pglock().env("PGLOCK_NAMESPACE", "spread_0");
    let words = [
        "run",
        "-v",
        "-d",
        &uri(server(), "{namespace}"),
        "x",
        "true",
    ];
    assert_reaches(&by_variable.args(words).run(), "spread_0");
}

#[test]
fn a_bad_number_of_shards_is_a_usage_error() {
    for template in [
        "{shard:0}",
        "{shard:x}",
        "{shard:1025}",
        "{shard:1000}{shard:999}",
    ] {
        let url = format!("postgres://u:s3cret@db.invalid/{template}");
        let pglock = || Pglock::without_server().env("PGLOCK_URL", &url);
        assert_usage_error(&pglock().arg("list").run(), "PGLOCK_URL: ");
        let option = Pglock::without_server().args(["list", "-d", template]);
        assert_usage_error(&option.run(), "--dbname: ");
        pglock().args(["key", "x"]).run().assert_code(0);
    }
}

#[test]
fn other_braces_stay_as_they_are() {
    let server = server();
    for database in ["{x}", "{shard}", "a{b", "}{"] {
        server.execute(&format!("CREATE DATABASE \"{database}\""));
        let words = ["run", "-v", "-N", "ns", "-d", database, "x", "true"];
        assert_reaches(&Pglock::new(server).args(words).run(), database);
    }
    // So a database may still have the name of a placeholder.
    server.execute("CREATE DATABASE \"{namespace}\"");
    let encoded = uri(server, "%7Bnamespace%7D");
    let words = ["run", "-v", "-d", &encoded, "x", "true"];
    assert_reaches(&Pglock::without_server().args(words).run(), "{namespace}");
}

#[track_caller]
fn assert_reaches(finished: &Finished, database: &str) {
    finished
        .assert_code(0)
        .assert_stdout("")
        .assert_stderr_has(&format!("connected to database {database} as postgres"));
}

#[track_caller]
fn assert_usage_error(finished: &Finished, part: &str) {
    finished
        .assert_code(125)
        .assert_stdout("")
        .assert_one_message()
        .assert_stderr_has(part)
        .assert(!finished.stderr.contains("s3cret"), "no password");
}

/// pglock with its locks spread over four databases.
fn spread(server: &Server) -> Pglock {
    Pglock::without_server().env("PGLOCK_URL", uri(server, "spread_{shard:4}"))
}

fn uri(server: &Server, database: &str) -> String {
    format!(
        "postgres://postgres@{}:{}/{database}",
        server.host(),
        server.port()
    )
}

fn server() -> &'static Server {
    static SERVER: OnceLock<Server> = OnceLock::new();
    SERVER.get_or_init(start)
}

fn start() -> Server {
    let server = Server::start();
    for number in 0..4 {
        server.execute(&format!("CREATE DATABASE spread_{number}"));
    }
    server
}
