//! Faults in what a session tells of itself, and in the reading of what others tell.

use std::thread::{self, JoinHandle};
use std::time::Duration;

use postgres::Client;
use serde_json::Value;

use crate::support::{Finished, Pglock, Running, Server, Waiter, backend_pid, until};

/// Far below what a cost that grows with the square of the command would come to.
const QUICK: Duration = Duration::from_secs(5);

/// As a part of SQL it ends two comments and a statement.
const INJECTION: &str = "x*/*/;create table pwned();--";

#[test]
fn a_command_that_ended_in_a_slash_was_not_run() {
    let database = database();
    for options in [&[][..], &["-N", "ns"]] {
        for verb in ["run", "try"] {
            let pglock = pglock(&database).arg(verb).args(options);
            assert_ran(
                &pglock.args(["slash", "ls", "-d", "/tmp/"]).run(),
                "/tmp/\n",
            );
        }
        let waited = after_a_wait(&database, options, "slash", &["ls", "-d", "/tmp/"]);
        assert_ran(&waited, "/tmp/\n");
    }
}

#[test]
fn a_name_became_sql_when_the_command_ended_in_a_slash() {
    let command = ["echo", "ran", "/"];
    for options in [&[][..], &["-N", "ns"], &["-N", INJECTION]] {
        let database = database();
        let call = |verb: &str| {
            let pglock = pglock(&database).arg(verb).args(options);
            pglock.arg(INJECTION).args(command).run()
        };
        let ran = [
            call("run"),
            call("try"),
            after_a_wait(&database, options, INJECTION, &command),
        ];
        let holder = pglock(&database).args(options).hold(INJECTION);
        let busy = call("try");
        holder.let_go().assert_code(0).assert_stderr("");

        let tables = "SELECT FROM pg_class WHERE relname = 'pwned'";
        let tables = client(&database).query(tables, &[]).unwrap();
        assert!(tables.is_empty(), "the name was executed: {ran:?}");
        for ran in &ran {
            assert_ran(ran, "ran /\n");
        }
        busy.assert_code(75).assert_stdout("").assert_one_message();
    }
}

#[test]
fn a_told_time_beyond_all_dates_crashed_list_and_try() {
    for time in [
        "9223372036854775807",
        "-9223372036854775808",
        "253402300800000000",
    ] {
        let database = database();
        let liar = Liar::tell(&database, &format!("waiting={time}&command=x"));
        let run = |words: &[&str]| pglock(&database).args(words).run();

        let json = run(&["list", "--json"]);
        json.assert_code(0).assert_stderr("");
        let views: Vec<Value> = serde_json::from_str(&json.stdout).unwrap();
        let states = views.iter().map(|view| (&view["pid"], &view["state"]));
        json.assert(
            states.eq([
                (&liar.pid.into(), &"held".into()),
                (&liar.pid.into(), &"waiting".into()),
            ]),
            "the liar as holder and as waiter",
        );
        for words in [
            &["list", "--format", "csv"][..],
            &["list"],
            &["list", "--wide"],
        ] {
            let shown = run(words);
            shown
                .assert_code(0)
                .assert_stderr("")
                .assert(shown.stdout.lines().count() == 3, "a header and two lines");
        }

        let holder = pglock(&database).hold("busy");
        for words in [
            &["try", "busy", "echo", "ran"][..],
            &["try", "--raw", "42", "echo", "ran"],
            &["run", "-w", "0", "--raw", "42", "echo", "ran"],
            &["release", "--raw", "42"],
        ] {
            run(words)
                .assert_code(75)
                .assert_stdout("")
                .assert_stderr_has(" is held by postgres ")
                .assert_one_message();
        }
        holder.let_go().assert_code(0).assert_stderr("");
    }
}

#[test]
fn quoted_and_nested_passwords_could_be_read_in_the_query() {
    let database = database();
    let mut probe = client(&database);
    for words in [
        &["https://x/y?u=postgres://u:s3cret@h"][..],
        &["PGPASSWORD=my s3cret"],
        &["--password", "s3cret"],
        &["--password=my s3cret"],
        &["PGPASSWORD='my s3cret' psql"],
        &["exec env PGPASSWORD=\"my s3cret\" psql -h x"],
        &["exec env PGPASSWORD=my\\ s3cret psql -h x"],
        &["host=h password = 'my s3cret' user=u"],
        &["psql 'postgres://u:s3cret@h/db'"],
    ] {
        let held = start(&database, "masked", words);
        let waiter = pglock(&database).args(["run", "masked", "true", "-"]);
        let waiter = waiter.args(words).spawn();
        until("the waiter", || waiting(&mut probe) == 1);
        let queries = queries(&mut probe);
        assert_eq!(queries.len(), 2, "{queries:?}");
        for query in &queries {
            assert!(query.contains("command="), "{query}");
            assert!(!query.contains("cret"), "{query}");
        }
        held.let_go()
            .assert_code(0)
            .assert_stdout("ready\n")
            .assert_stderr("");
        waiter.wait().assert_code(0).assert_silent();
    }
}

#[test]
fn a_huge_command_took_for_ever_to_be_masked() {
    let database = database();
    // The kernel takes 128 KiB in one word.
    let long = ["password", "password=", "postgres://u:", "://", "x@", "'"]
        .map(|part| vec![part.repeat(128_000 / part.len())]);
    let many = ["password=x", "--password", "a/"].map(|word| vec![word.to_owned(); 10_000]);
    for words in long.iter().chain(&many) {
        let finished = pglock(&database)
            .args(["run", "huge", "sh", "-c", "echo $#; exit 7", "sh"])
            .args(words)
            .run();
        finished
            .assert_code(7)
            .assert_stdout(&format!("{}\n", words.len()))
            .assert_stderr("")
            .assert(finished.took < QUICK, "no long computation");
    }
}

/// A session that looks like a pglock's, holds the key 42 and says something in a query that lasts.
struct Liar {
    pid: i32,
    thread: Option<JoinHandle<()>>,
}

impl Liar {
    #[track_caller]
    fn tell(database: &str, told: &str) -> Self {
        let mut session = client(database);
        let pid = backend_pid(&mut session);
        session
            .batch_execute("SET application_name = 'pglock? x (h:1)'; SELECT pg_advisory_lock(42)")
            .unwrap();
        let lie = format!("/*pglock {told} */ SELECT pg_sleep(100)");
        // It ends with an error: the session is terminated.
        let thread = thread::spawn(move || drop(session.batch_execute(&lie)));
        let thread = Some(thread);
        let liar = Self { pid, thread };
        let mut probe = client(database);
        let sleeping = "SELECT FROM pg_stat_activity WHERE pid = $1 AND wait_event = 'PgSleep'";
        until("the lie", || {
            !probe.query(sleeping, &[&pid]).unwrap().is_empty()
        });
        liar
    }
}

impl Drop for Liar {
    fn drop(&mut self) {
        let end = format!("SELECT pg_terminate_backend({})", self.pid);
        Server::shared().execute(&end);
        drop(self.thread.take().map(JoinHandle::join));
    }
}

/// What becomes of this command when it has to wait for the lock.
#[track_caller]
fn after_a_wait(database: &str, options: &[&str], name: &str, command: &[&str]) -> Finished {
    let mut probe = client(database);
    let holder = pglock(database).args(options).hold(name);
    let mut waiter = pglock(database)
        .arg("run")
        .args(options)
        .arg(name)
        .args(command)
        .spawn();
    until("the waiter, or its end", || {
        waiting(&mut probe) == 1 || !waiter.is_running()
    });
    holder.let_go().assert_code(0).assert_stderr("");
    waiter.wait()
}

#[track_caller]
fn assert_ran(finished: &Finished, output: &str) {
    finished
        .assert_code(0)
        .assert_stdout(output)
        .assert_stderr("");
}

/// A command under the lock that takes these words and does nothing with them.
#[track_caller]
fn start(database: &str, lock: &str, words: &[&str]) -> Running {
    let job = ["run", lock, "sh", "-c", "echo ready; exec cat", "sh"];
    let mut running = pglock(database).args(job).args(words).spawn();
    running.wait_line("ready");
    running
}

/// How many sessions of pglock wait in the session's database.
fn waiting(probe: &mut Client) -> i64 {
    let count = "SELECT count(*) FROM pg_stat_activity
        WHERE datname = current_database() AND application_name ~ '^pglock[?~] '";
    probe.query_one(count, &[]).unwrap().get(0)
}

/// The query texts of all sessions of pglock in the session's database.
fn queries(probe: &mut Client) -> Vec<String> {
    let texts = "SELECT query FROM pg_stat_activity
        WHERE datname = current_database() AND application_name ~ '^pglock[:?~] '";
    let rows = probe.query(texts, &[]).unwrap();
    rows.iter().map(|row| row.get(0)).collect()
}

fn database() -> String {
    Server::shared().database()
}

fn pglock(database: &str) -> Pglock {
    Pglock::new(Server::shared()).env("PGDATABASE", database)
}

#[track_caller]
fn client(database: &str) -> Client {
    Server::shared().client_as(database, "postgres")
}

/// Fewer digits than a time has (PostgreSQL documentation, 20.11.2).
#[test]
fn the_beginning_of_a_wait_moved_where_a_role_wants_few_digits() {
    let server = Server::shared();
    let (database, role) = (server.database(), server.role(""));
    server.execute(&format!("ALTER ROLE {role} SET extra_float_digits = -15"));
    let there = || Pglock::new(server).env("PGDATABASE", &database);
    let holder = there().hold("few-digits");
    let waiter = there()
        .env("PGUSER", &role)
        .args(["run", "few-digits", "true"])
        .spawn();
    let mut client = server.client();
    let mut last_try = || {
        let sql = "SELECT query_start::text FROM pg_stat_activity WHERE application_name LIKE 'pglock? few-digits %' AND query LIKE '%waiting=%'";
        client
            .query(sql, &[])
            .unwrap()
            .first()
            .map(|row| row.get::<_, String>(0))
    };
    let since = || {
        let listed = there().args(["list", "--json"]).run();
        let rows: serde_json::Value = serde_json::from_str(&listed.stdout).unwrap();
        let waiting = rows
            .as_array()
            .unwrap()
            .iter()
            .find(|row| row["state"] == "waiting");
        waiting.unwrap()["since"].clone()
    };
    let first_try = until("a try that tells when the wait began", &mut last_try);
    let first = since();
    until("another try", || {
        last_try().filter(|try_| *try_ != first_try)
    });
    assert_eq!(since(), first);
    holder.let_go().assert_code(0);
    waiter.wait().assert_code(0).assert_stderr("");
}

/// What is said of how to free a lock is typed as it is said.
#[test]
fn a_name_with_control_characters_was_told_in_a_way_that_no_shell_takes() {
    let server = Server::shared();
    let name = "esc\u{1b}]x\u{202e}";
    let holder = Pglock::new(server).hold(name);
    let busy = Pglock::new(server).args(["try", name, "true"]).run();
    busy.assert_code(75).assert_one_message();
    let told = busy
        .stderr
        .trim_end()
        .rsplit("; to free it: ")
        .next()
        .unwrap();
    let options = told.strip_prefix("pglock release ").unwrap();
    let script = format!("\"$0\" list -q {options}");
    let launcher = ["bash", "-c", script.as_str()];
    Pglock::new(server).through(&launcher).run().assert_code(0);
    holder.let_go().assert_code(0);
}

#[test]
fn a_stranger_that_waits_for_a_named_lock_was_shown_beside_it_without_the_name() {
    let server = Server::start();
    let holder = Pglock::new(&server).hold("named");
    let key = Pglock::without_server().args(["key", "named"]).run().stdout;
    let call = format!("pg_advisory_lock({})", key.trim());
    let waiter = Waiter::start(&server, "postgres", &call);
    let listed = Pglock::new(&server).args(["list", "--json"]).run();
    assert_eq!(
        listed.stdout.matches("\"name\":\"named\"").count(),
        2,
        "{listed:?}"
    );
    holder.let_go().assert_code(0);
    drop(waiter.granted());
}

#[test]
fn without_a_name_everything_was_listed_whatever_the_scheme() {
    for options in [
        &["--as", "prisma-migrate"][..],
        &["--hash", "md5"],
        &["--raw"],
    ] {
        let refused = Pglock::without_server().arg("list").args(options).run();
        refused
            .assert_code(125)
            .assert_one_message()
            .assert_stderr_has(": give a NAME, too");
    }
}

#[test]
fn the_scheme_of_a_name_was_not_told() {
    let server = Server::start();
    let holder = Pglock::new(&server).args(["--hash", "md5"]).hold("by-md5");
    let raw = Pglock::new(&server).args(["--raw"]).hold("42");
    let listed = Pglock::new(&server).args(["list", "--json"]).run();
    listed
        .assert_stdout_has("\"name\":\"by-md5\"")
        .assert_stdout_has("\"scheme\":\"md5\"")
        .assert_stdout_has("\"scheme\":null");
    let table = Pglock::new(&server).arg("list").run();
    table
        .assert_stdout_has("--hash md5 by-md5 ")
        .assert_stdout_has("--raw 42 ");
    holder.let_go().assert_code(0);
    raw.let_go().assert_code(0);
}
