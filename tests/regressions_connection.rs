//! Faults in where pglock connects, in what it tells of it, and in how it takes the end of a connection.

use std::fs::{self, Permissions};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

use nix::unistd::geteuid;

use crate::support::{Finished, Pglock, Proxy, Running, Server, Watchdog, binary, until};

/// Far below what anybody waits for another's transaction to end.
const PROMPTLY: Duration = Duration::from_secs(8);

#[test]
fn an_error_quoted_a_part_of_the_password() {
    let url = |url: &'static str| Pglock::without_server().env("PGLOCK_URL", url);
    let option = |words: [&'static str; 2]| Pglock::without_server().args(words);
    let cases: [&dyn Fn() -> Pglock; 7] = [
        &|| url("postgres://u:s3/cret@h/db"),
        &|| url("postgres://user:secret/db"),
        &|| option(["-d", "postgres://u:s3/cret@h/db"]),
        &|| option(["-d", "postgres://user:secret/db"]),
        &|| option(["-d", "postgress://u:secret@h/db"]),
        &|| option(["-d", "postgresql+asyncpg://u:secret@h/db"]),
        &|| option(["-h", "postgres://u:secret@127.0.0.1/db"]),
    ];
    for case in cases {
        for words in [
            &["list"][..],
            &["run", "-v", "x", "true"],
            &["release", "x"],
        ] {
            let finished = case().args(words).run();
            finished
                .assert_code(125)
                .assert_stdout("")
                .assert_one_message();
            for part in ["secret", "s3", "cret"] {
                let told = finished.stderr.contains(part);
                finished.assert(!told, &format!("no {part:?}"));
            }
        }
    }
}

#[test]
fn an_empty_option_hid_the_variable() {
    let server = Server::shared();
    let (database, role) = (server.database(), server.role(""));
    let job = [
        "empty-option",
        "sh",
        "-c",
        "echo $PGLOCK_BACKEND_PID; exec cat",
    ];
    let whose =
        "SELECT datname::text, usename::text FROM pg_stat_activity WHERE pid = $1::text::int";
    let mut probe = server.client();
    for options in [
        &["-d", ""][..],
        &["-h", ""],
        &["-p", ""],
        &["-U", ""],
        &["-d", "", "-h", "", "-p", "", "-U", ""],
    ] {
        let mut running = Pglock::new(server)
            .envs([("PGDATABASE", &database), ("PGUSER", &role)])
            .arg("run")
            .args(options)
            .args(job)
            .spawn();
        running.wait_output("a process ID", |running| {
            running.stdout_so_far().ends_with('\n')
        });
        let told = running.stdout_so_far();
        let row = probe.query_one(whose, &[&told.trim_end()]).unwrap();
        let reached: (String, String) = (row.get(0), row.get(1));
        assert_eq!(reached, (database.clone(), role.clone()), "{options:?}");
        running
            .let_go()
            .assert_code(0)
            .assert_stdout(&told)
            .assert_stderr("");
    }
}

#[test]
fn a_server_that_ended_the_session_at_the_first_query_was_an_unexpected_error() {
    for words in [
        &["list"][..],
        &["run", "x", "echo", "ran"],
        &["try", "x", "echo", "ran"],
        &["release", "-f", "x"],
    ] {
        // Servers before 9.6, and some poolers, leave out the field that tells the severity in English.
        for severity in ["SFATAL\0VFATAL\0", "SFATAL\0"] {
            at_the_mercy_of_a_pooler(severity, words)
                .assert_code(121)
                .assert_stdout("")
                .assert_stderr("pglock: the connection was lost: server conn crashed?\n");
        }
    }
}

#[test]
fn a_connection_that_was_cut_at_the_question_who_holds_the_lock_was_a_crash() {
    let server = Server::shared();
    let holder = Pglock::new(server).hold("cut-question");
    let proxy = Proxy::with_delay(server, Duration::from_millis(300));
    let asking = Pglock::new(server)
        .envs(proxy.env())
        .env("PGSSLMODE", "disable")
        .args(["try", "cut-question", "echo", "ran"])
        .spawn();
    until("the question, behind start-up and try", || {
        proxy.flights() == [3]
    });
    proxy.cut();
    asking
        .wait()
        .assert_code(75)
        .assert_stdout("")
        .assert_stderr("pglock: cut-question is held; by whom could not be asked\n");
    holder.let_go().assert_code(0).assert_stderr("");
}

/// A role's defaults may make every statement wait for the transactions of others.
#[test]
fn serializable_and_deferrable_by_default_made_everything_wait() {
    let server = Server::shared();
    let (database, role) = (server.database(), server.role(""));
    for setting in [
        "default_transaction_isolation = 'serializable'",
        "default_transaction_read_only = on",
        "default_transaction_deferrable = on",
    ] {
        server.execute(&format!("ALTER ROLE {role} SET {setting}"));
    }
    let mut writer = server.client_as(&database, "postgres");
    writer
        .batch_execute("BEGIN ISOLATION LEVEL SERIALIZABLE; CREATE TABLE written ()")
        .unwrap();
    // Without this the rest could pass because nobody has to wait.
    let mut plain = server.client_as(&database, &role);
    plain.batch_execute("SET statement_timeout = 100").unwrap();
    let error = plain.batch_execute("SELECT 1").unwrap_err();
    assert_eq!(error.code().unwrap().code(), "57014", "{error:?}");

    let run = |words: &[&str], code: i32, stdout: &str| {
        let finished = Pglock::new(server)
            .envs([("PGDATABASE", &database), ("PGUSER", &role)])
            .args(words)
            .run();
        finished.assert_code(code).assert_stdout(stdout);
        finished.assert(finished.took < PROMPTLY, "a prompt end");
        finished
    };
    run(&["run", "x", "echo", "ran"], 0, "ran\n").assert_stderr("");
    run(&["try", "x", "echo", "ran"], 0, "ran\n").assert_stderr("");
    run(&["list", "--json"], 0, "[]\n").assert_stderr("");
    run(&["release", "-f", "x"], 1, "").assert_stderr("");
    let mut holder = server.client_as(&database, "postgres");
    holder.batch_execute("SELECT pg_advisory_lock(42)").unwrap();
    for words in [
        &["try", "--raw", "42", "echo", "ran"][..],
        &["run", "-w", "100ms", "--raw", "42", "echo", "ran"],
    ] {
        run(words, 75, "")
            .assert_stderr_has(" is held by postgres (backend ")
            .assert_one_message();
    }
    run(&["list", "-q", "--raw", "42"], 0, "").assert_stderr("");
    writer.batch_execute("ROLLBACK").unwrap();
}

/// What becomes of these words where the first query is answered as `PgBouncer` does when it has lost its server.
#[track_caller]
fn at_the_mercy_of_a_pooler(severity: &'static str, words: &[&str]) -> Finished {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    let pooler = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(20)))
            .unwrap();
        let startup = read_rest(&mut stream);
        assert_eq!(startup[..4], [0, 3, 0, 0], "protocol 3.0, without TLS");
        send(&mut stream, b'R', &[0; 4]);
        send(&mut stream, b'S', b"server_version\x0015.0\0");
        send(&mut stream, b'S', b"server_encoding\0UTF8\0");
        send(&mut stream, b'Z', b"I");
        let mut kind = [0];
        stream.read_exact(&mut kind).unwrap();
        assert_eq!(kind, *b"Q");
        read_rest(&mut stream);
        let error = format!("{severity}C08P01\0Mserver conn crashed?\0\0");
        send(&mut stream, b'E', error.as_bytes());
    });
    let finished = Pglock::without_server()
        .envs([("PGHOST", "127.0.0.1"), ("PGPORT", &port)])
        .envs([("PGUSER", "u"), ("PGSSLMODE", "disable")])
        .args(words)
        .run();
    if let Err(error) = pooler.join() {
        panic!("{:?} of\n{finished:?}", error.downcast::<String>());
    }
    finished
}

/// The rest of a message, behind its type: the length, which counts itself, and the content.
fn read_rest(stream: &mut TcpStream) -> Vec<u8> {
    let mut length = [0; 4];
    stream.read_exact(&mut length).unwrap();
    let mut content = vec![0; u32::from_be_bytes(length) as usize - 4];
    stream.read_exact(&mut content).unwrap();
    content
}

fn send(stream: &mut TcpStream, kind: u8, content: &[u8]) {
    let length = u32::try_from(content.len() + 4).unwrap().to_be_bytes();
    stream
        .write_all(&[&[kind], &length[..], content].concat())
        .unwrap();
}

/// The limit binds nobody who is root.
#[test]
fn a_name_that_was_looked_up_without_a_thread_was_a_crash() {
    if !geteuid().is_root() {
        return;
    }
    let scratch = Watchdog::start();
    let readable = |path: &Path| fs::set_permissions(path, Permissions::from_mode(0o755)).unwrap();
    readable(scratch.directory());
    let program = scratch.directory().join("pglock");
    fs::copy(binary(), &program).unwrap();
    readable(&program);
    let mut command = Command::new("setpriv");
    command
        .args(["--reuid=44444", "--regid=44444", "--clear-groups"])
        .args(["prlimit", "--nproc=0"])
        .arg(&program)
        .args([
            "list",
            "-d",
            "host=localhost port=1 user=nobody dbname=nothing",
        ]);
    let finished = Running::start(&mut command).wait();
    finished
        .assert_code(121)
        .assert_stdout("")
        .assert_one_message();
    finished.assert_stderr_has("cannot connect to localhost port 1: connection refused");
}
