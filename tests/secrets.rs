//! Wherever a password comes from, nobody else sees it: not in ps, in messages, in `pglock list`, nor in the server's
//! views and log.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

use nix::unistd::Pid;

use crate::support::{Pglock, Server, Shutdown, Watchdog, child_named};

const SECRET: &str = "s3cret-p4ss/w@rd";
const WRONG: &str = "s3cret-wr0ng/@";

/// One way to tell pglock a password; `<host>`, `<port>`, `<secret>` and `<encoded>`, which is the secret in a URI,
/// stand for what only the running test knows.
struct Way {
    name: &'static str,
    arguments: &'static [&'static str],
    variables: &'static [(&'static str, &'static str)],
    file: Option<(&'static str, &'static str)>,
}

const BY_PARTS: [(&str, &str); 4] = [
    ("PGHOST", "<host>"),
    ("PGPORT", "<port>"),
    ("PGUSER", "guarded"),
    ("PGDATABASE", "postgres"),
];

const WAYS: [Way; 7] = [
    Way {
        name: "uri",
        arguments: &["-d", "postgres://guarded:<encoded>@<host>:<port>/postgres"],
        variables: &[],
        file: None,
    },
    Way {
        name: "keywords",
        arguments: &[
            "-d",
            "host=<host> port=<port> user=guarded dbname=postgres password='<secret>'",
        ],
        variables: &[],
        file: None,
    },
    Way {
        name: "pglock-url",
        arguments: &[],
        variables: &[(
            "PGLOCK_URL",
            "host=<host> port=<port> user=guarded dbname=postgres password=<secret>",
        )],
        file: None,
    },
    Way {
        name: "database-url",
        arguments: &[],
        variables: &[(
            "DATABASE_URL",
            "postgres://guarded:<encoded>@<host>:<port>/postgres",
        )],
        file: None,
    },
    Way {
        name: "variable",
        arguments: &[
            "-h", "<host>", "-p", "<port>", "-U", "guarded", "-d", "postgres",
        ],
        variables: &[("PGPASSWORD", "<secret>")],
        file: None,
    },
    Way {
        name: "password-file",
        arguments: &[],
        variables: &BY_PARTS,
        file: Some((".pgpass", "*:*:*:*:<secret>\n")),
    },
    Way {
        name: "service-file",
        arguments: &["-d", "service=s"],
        variables: &[],
        file: Some((
            ".pg_service.conf",
            "[s]\nhost=<host>\nport=<port>\nuser=guarded\ndbname=postgres\npassword=<secret>\n",
        )),
    },
];

#[test]
fn a_password_is_shown_nowhere_wherever_it_comes_from() {
    let server = guarded();
    let scratch = Watchdog::start();
    for way in &WAYS {
        let pglock = |secret: &str| way.pglock(&server, &scratch, secret);
        let holder = pglock(SECRET).arg("-v").hold(way.name);

        let command = child_named(holder.pid(), "cat").expect("the command");
        let shown = [
            ("arguments", proc(holder.pid(), "cmdline"), way.arguments),
            ("the command's arguments", proc(command, "cmdline"), &[]),
        ];
        for (what, text, typed) in shown {
            // Arguments are not rewritten: who types a password there shows it to ps.
            let is_typed = typed.iter().any(|word| tells(word));
            assert_eq!(
                text.contains("s3cret"),
                is_typed,
                "{}: {what}: {text}",
                way.name
            );
        }
        for pid in [holder.pid(), command] {
            let environment = proc(pid, "environ");
            let is_set = way.variables.iter().any(|(_, value)| tells(value));
            assert_eq!(environment.contains("s3cret"), is_set, "{}", way.name);
        }
        for row in &activity(&server) {
            assert_no_secret(row);
        }
        let listed = pglock(SECRET).args(["list", "--json", way.name]).run();
        listed.assert_code(0).assert_stdout_has(way.name);
        let busy = pglock(SECRET).args(["try", "-v", way.name, "true"]).run();
        busy.assert_code(75);
        let refused = pglock(WRONG).args(["run", "-v", way.name, "true"]).run();
        refused
            .assert_code(121)
            .assert_stderr_has("password authentication failed");
        let held = holder.let_go();
        held.assert_code(0)
            .assert_stderr_has("connected to database postgres as guarded");
        for finished in [listed, busy, refused, held] {
            assert_no_secret(&finished.stdout);
            assert_no_secret(&finished.stderr);
        }
    }
    server.stop(Shutdown::Smart);
    let log = server.log();
    for what in [
        "connection authorized: user=guarded",
        "statement: ",
        "password authentication failed for user \"guarded\"",
    ] {
        assert!(log.matches(what).count() >= WAYS.len(), "{what} in\n{log}");
    }
    assert_no_secret(&log);
}

impl Way {
    /// pglock with a home directory of its own, led to the server with this password.
    fn pglock(&self, server: &Server, scratch: &Watchdog, secret: &str) -> Pglock {
        let fill_in = |text: &str| {
            text.replace("<host>", server.host())
                .replace("<port>", &server.port().to_string())
                .replace("<secret>", secret)
                .replace("<encoded>", &secret.replace('/', "%2F").replace('@', "%40"))
        };
        let number = u8::from(secret == SECRET);
        let home = scratch.directory().join(format!("{}-{number}", self.name));
        fs::create_dir_all(&home).unwrap();
        if let Some((name, text)) = self.file {
            let file = home.join(name);
            fs::write(&file, fill_in(text)).unwrap();
            fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
        }
        let variables = self.variables.iter();
        Pglock::without_server()
            .env("HOME", home)
            .envs(variables.map(|(name, value)| (name, fill_in(value))))
            .args(self.arguments.iter().map(|word| fill_in(word)))
    }
}

/// A server where the role `guarded` needs a password, and which logs all it is told.
fn guarded() -> Server {
    let server = Server::with(&["log_connections = on", "log_statement = all"]);
    // Not by a statement that is logged.
    let mut client = server.client();
    let create = format!("CREATE ROLE guarded LOGIN PASSWORD '{SECRET}'");
    client.batch_execute("SET log_statement = 'none'").unwrap();
    client.batch_execute(&create).unwrap();
    drop(client);
    let rules = server.data_dir().join("pg_hba.conf");
    let others = fs::read_to_string(&rules).unwrap();
    // The plain password is hashed by the server, which takes less time than an unoptimized build's SCRAM.
    fs::write(&rules, format!("host all guarded all password\n{others}")).unwrap();
    server.stop(Shutdown::Fast);
    server.start_again();
    server
}

/// What everybody with the right to look sees of the sessions.
fn activity(server: &Server) -> Vec<String> {
    let rows = "SELECT activity::text FROM pg_stat_activity activity WHERE usename = 'guarded'";
    let rows = server.client().query(rows, &[]).unwrap();
    assert!(!rows.is_empty());
    rows.iter().map(|row| row.get(0)).collect()
}

/// Whether the password goes in here.
fn tells(text: &str) -> bool {
    text.contains("<secret>") || text.contains("<encoded>")
}

fn proc(pid: Pid, file: &str) -> String {
    let bytes = fs::read(format!("/proc/{pid}/{file}")).unwrap();
    String::from_utf8_lossy(&bytes).into_owned()
}

#[track_caller]
fn assert_no_secret(text: &str) {
    assert!(!text.contains("s3cret"), "{text}");
}
