//! `pglock release` of what other programs hold, or with `--force`: the holder's session ends, and no other.

use std::thread;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use postgres::Client;

use crate::support::{Finished, Pglock, Server, Waiter, backend_pid, until};

#[test]
fn only_the_holder_of_that_very_lock_is_ended() {
    let (database, other_database) = (database(), database());
    let mut holder = holding(&database, "pg_advisory_lock(42)");
    let mut beside = [
        holding(&database, "pg_advisory_lock(0, 42)"),
        holding(&database, "pg_advisory_lock(42, 0)"),
        holding(&database, "pg_advisory_lock(-42)"),
        holding(&database, "pg_advisory_lock((42::bigint << 32) | 42)"),
        holding(&other_database, "pg_advisory_lock(42)"),
    ];
    let first = Waiter::start(Server::shared(), &database, "pg_advisory_lock(42)");
    let second = Waiter::start(Server::shared(), &database, "pg_advisory_lock_shared(42)");

    release(&database, &["--force", "--raw", "42"])
        .run()
        .assert_code(0)
        .assert_silent();

    assert!(!lives(&mut holder));
    assert!(beside.iter_mut().all(lives));
    // The lock goes on to those who waited for it, one after the other.
    assert!(lives(&mut first.granted()));
    assert!(lives(&mut second.granted()));
}

#[test]
fn releasing_what_nobody_holds_exits_1_and_says_nothing() {
    let database = database();
    let mut holder = holding(&database, "pg_advisory_lock(42)");
    let call = || release(&database, &["--force", "--raw", "42"]).run();
    call().assert_code(0).assert_silent();
    assert!(!lives(&mut holder));
    call().assert_code(1).assert_silent();
    release(&database, &["no such lock"])
        .run()
        .assert_code(1)
        .assert_silent();
}

#[test]
fn a_job_under_pglock_is_stopped_when_its_lock_is_released() {
    let database = database();
    let job = ["run", "job", "--", "sh", "-c", "echo $$; exec cat"];
    let mut job = pglock(&database).args(job).spawn();
    job.wait_output("the job's process", |job| {
        job.stdout_so_far().ends_with('\n')
    });
    let command = Pid::from_raw(job.stdout_so_far().trim().parse().unwrap());
    assert_eq!(kill(command, None), Ok(()));

    release(&database, &["--force", "job"])
        .run()
        .assert_code(0)
        .assert_silent();

    job.wait()
        .assert_code(123)
        .assert_stdout(&format!("{command}\n"))
        .assert_one_message()
        .assert_stderr_has("job was lost");
    assert_eq!(kill(command, None), Err(Errno::ESRCH));
    let again = pglock(&database).args(["try", "job", "true"]).run();
    again.assert_code(0).assert_silent();
}

#[test]
fn without_a_terminal_and_without_force_the_holder_is_only_named() {
    let database = database();
    let mut foreign = holding(&database, "pg_advisory_lock(42)");
    let pid = backend_pid(&mut foreign);
    release(&database, &["--raw", "42"])
        .run()
        .assert_code(75)
        .assert_stdout("")
        .assert_one_message()
        .assert_stderr_has("key 42 is held by postgres")
        .assert_stderr_has(&format!("(backend {pid})"))
        .assert_stderr_has("; --yes ends its session\n");
    assert!(lives(&mut foreign));
    release(&database, &["--yes", "--raw", "42"])
        .run()
        .assert_code(0)
        .assert_silent();
    assert!(!lives(&mut foreign));
}

#[test]
fn on_a_terminal_it_shows_the_holder_and_asks() {
    let database = database();
    let mut holder = holding(&database, "pg_advisory_lock(42)");
    let pid = backend_pid(&mut holder);
    let mut answer = |typed: &[u8]| {
        let mut terminal = release(&database, &["--raw", "42"]).on_terminal();
        terminal.wait_for(&format!("(backend {pid})"));
        terminal.wait_for("[y/N] ");
        assert!(lives(&mut holder), "nothing happens before the answer");
        terminal.write(typed);
        (terminal.wait(), lives(&mut holder))
    };
    for no in [&b"n\n"[..], b"\n", b"no\n", b"maybe\n", b"\x04"] {
        let (finished, lives) = answer(no);
        finished
            .assert_code(75)
            .assert(lives, "the holder's session still there");
    }
    let (finished, lives) = answer(b"y\n");
    finished
        .assert_code(0)
        .assert(!lives, "the end of the holder's session");
}

#[test]
fn what_nobody_holds_is_said_on_a_terminal_alone() {
    let database = database();
    let mut terminal = release(&database, &["typo"]).on_terminal();
    terminal.wait_for("pglock: typo: nobody holds it");
    terminal.wait().assert_code(1);
    let mut terminal = release(&database, &["--pid", "1", "typo"]).on_terminal();
    terminal.wait_for("pglock: typo: backend 1 does not hold it");
    terminal.wait().assert_code(1);
    release(&database, &["typo"])
        .run()
        .assert_code(1)
        .assert_silent();
}

#[test]
fn a_dry_run_shows_the_holders_and_ends_none() {
    let database = database();
    let mut holders = [(); 2].map(|()| holding(&database, "pg_advisory_lock_shared(42)"));
    let shown = release(&database, &["--dry-run", "--raw", "42"]).run();
    shown.assert_code(0).assert_stdout("");
    for holder in &mut holders {
        shown.assert_stderr_has(&format!("(backend {})", backend_pid(holder)));
    }
    let lines = shown.stderr.lines().count();
    shown.assert(lines == 2, "one line for each holder");
    assert!(holders.iter_mut().all(lives));
    release(&database, &["--dry-run", "--raw", "43"])
        .run()
        .assert_code(1)
        .assert_silent();
}

#[test]
fn pid_picks_one_of_several_holders() {
    let database = database();
    let [mut first, mut picked, mut last] =
        [(); 3].map(|()| holding(&database, "pg_advisory_lock_shared(42)"));
    let mut bystander = holding(&database, "pg_advisory_lock(43)");
    let with_pid = |pid: i32| {
        let words = ["--force", "--pid", &pid.to_string(), "--raw", "42"];
        release(&database, &words).run()
    };
    with_pid(backend_pid(&mut bystander))
        .assert_code(1)
        .assert_silent();
    with_pid(backend_pid(&mut picked))
        .assert_code(0)
        .assert_silent();
    assert!(!lives(&mut picked));
    assert!(
        [&mut first, &mut last, &mut bystander]
            .into_iter()
            .all(lives)
    );
}

#[test]
fn several_names_are_released_in_one_call() {
    let database = database();
    let jobs = ["a", "b", "c"].map(|name| pglock(&database).hold(name));
    release(&database, &["-f", "a", "not held", "b"])
        .run()
        .assert_code(0)
        .assert_silent();
    let [a, b, c] = jobs;
    for lost in [a, b] {
        lost.wait().assert_code(123).assert_stdout("ready\n");
    }
    c.let_go().assert_code(0).assert_stderr("");
}

#[test]
fn a_lock_in_a_namespace_is_released_and_its_namesake_is_not() {
    let database = database();
    let plain = pglock(&database).hold("x");
    let spaced = pglock(&database).args(["-N", "ns"]).hold("x");
    release(&database, &["-f", "-N", "ns", "x"])
        .run()
        .assert_code(0)
        .assert_silent();
    spaced.wait().assert_code(123);
    plain.let_go().assert_code(0).assert_stderr("");
}

#[test]
fn a_prepared_transaction_is_left_alone_and_its_rollback_is_named() {
    let database = database();
    let mut client = client(&database);
    let gid = format!("it's {database}");
    let prepare =
        format!("BEGIN; SELECT pg_advisory_xact_lock(42); PREPARE TRANSACTION 'it''s {database}'");
    client.batch_execute(&prepare).unwrap();

    let refused = release(&database, &["-f", "--raw", "42"]).run();
    refused
        .assert_code(75)
        .assert_stdout("")
        .assert_one_message()
        .assert_stderr_has(&format!("ROLLBACK PREPARED 'it''s {database}'"));
    let left = "SELECT FROM pg_prepared_xacts WHERE gid = $1";
    assert_eq!(client.query(left, &[&gid]).unwrap().len(), 1);

    // The advice as it is printed does free the lock.
    let advice = &refused.stderr[refused.stderr.find("ROLLBACK").unwrap()..];
    let statement = &advice[..=advice.rfind('\'').unwrap()];
    client.batch_execute(statement).unwrap();
    release(&database, &["-f", "--raw", "42"])
        .run()
        .assert_code(1)
        .assert_silent();
}

#[test]
fn a_stranger_is_refused_and_told_what_would_help() {
    let case = Privileges::new();
    let stranger = Server::shared().role("");
    let mut victim = case.holding(&case.owner);
    case.release_as(&stranger)
        .assert_code(120)
        .assert_stdout("")
        .assert_one_message()
        .assert_stderr_has(&case.owner)
        .assert_stderr_has("pg_signal_backend");
    assert!(lives(&mut victim));
}

#[test]
fn a_member_of_the_owner_and_of_pg_signal_backend_may() {
    let case = Privileges::new();
    let member = Server::shared().role(&format!("IN ROLE {}", case.owner));
    let signaller = Server::shared().role("IN ROLE pg_signal_backend");
    for role in [&case.owner, &member, &signaller] {
        let mut victim = case.holding(&case.owner);
        case.release_as(role).assert_code(0).assert_silent();
        assert!(!lives(&mut victim), "{role}");
    }
}

#[test]
fn the_session_of_a_superuser_is_only_ended_by_a_superuser() {
    let case = Privileges::new();
    let signaller = Server::shared().role("IN ROLE pg_signal_backend");
    let mut victim = case.holding("postgres");
    case.release_as(&signaller)
        .assert_code(120)
        .assert_stdout("")
        .assert_one_message()
        .assert_stderr_has("superuser");
    assert!(lives(&mut victim));
    case.release_as("postgres").assert_code(0).assert_silent();
    assert!(!lives(&mut victim));
}

#[test]
fn a_refusal_does_not_spare_the_other_holders() {
    let case = Privileges::new();
    let other = Server::shared().role("");
    for owners in [[&case.owner, &other], [&other, &case.owner]] {
        let mut holders = owners.map(|owner| case.holding(owner));
        case.release_as(&case.owner)
            .assert_code(120)
            .assert_stdout("")
            .assert_one_message()
            .assert_stderr_has(&other);
        for (holder, owner) in holders.iter_mut().zip(owners) {
            assert_eq!(lives(holder), *owner == other, "{owner}");
        }
    }
}

#[test]
fn a_holder_that_does_not_end_is_waited_for_only_so_long() {
    let server = Server::start();
    let mut holder = server.client();
    holder.batch_execute("SELECT pg_advisory_lock(42)").unwrap();
    let backend = Pid::from_raw(backend_pid(&mut holder));
    kill(backend, Signal::SIGSTOP).unwrap();

    let words = ["release", "-f", "--timeout", "300ms", "--raw", "42"];
    let finished = Pglock::new(&server).args(words).run();
    finished
        .assert_code(75)
        .assert_stdout("")
        .assert_one_message()
        .assert_stderr_has(&format!("(backend {backend})"))
        .assert(
            (Duration::from_millis(300)..Duration::from_secs(20)).contains(&finished.took),
            "an end soon after 300 ms",
        );

    kill(backend, Signal::SIGCONT).unwrap();
    until("the end of the halted backend", || !lives(&mut holder));
}

/// The holder gives its lock up at any moment of the call, and the next in the queue gets it: that one was never meant.
#[test]
fn whoever_takes_the_lock_meanwhile_is_never_ended() {
    const RACES: u32 = 200;
    let database = database();
    let mut holder = client(&database);
    let (mut gone, mut spared) = (0, 0);
    for _ in 0..RACES {
        holder.batch_execute("SELECT pg_advisory_lock(42)").unwrap();
        let pid = backend_pid(&mut holder);
        let next = Waiter::start(Server::shared(), &database, "pg_advisory_lock(42)");
        let lets_go = thread::spawn(move || {
            let late = format!("SELECT pg_sleep({})", fastrand::f64() * 0.03);
            let unlocked = holder.batch_execute(&format!("{late}; SELECT pg_advisory_unlock(42)"));
            drop(unlocked);
            holder
        });
        let words = ["-f", "--pid", &pid.to_string(), "--raw", "42"];
        let finished = release(&database, &words).run();
        finished.assert_silent();
        holder = lets_go.join().unwrap();
        match finished.code {
            Some(0) => {
                finished.assert(!lives(&mut holder), "the end of the holder");
                holder = client(&database);
                gone += 1;
            }
            Some(1) => {
                finished.assert(lives(&mut holder), "nobody ended");
                spared += 1;
            }
            _ => drop(finished.assert(false, "exit code 0 or 1")),
        }
        let mut next = next.granted();
        finished.assert(lives(&mut next), "the next holder alive");
    }
    assert_eq!(gone + spared, RACES);
}

/// A lock shared by sessions of different roles.
struct Privileges {
    database: String,
    owner: String,
}

impl Privileges {
    fn new() -> Self {
        Self {
            database: database(),
            owner: Server::shared().role(""),
        }
    }

    #[track_caller]
    fn holding(&self, role: &str) -> Client {
        let mut client = Server::shared().client_as(&self.database, role);
        client
            .batch_execute("SELECT pg_advisory_lock_shared(42)")
            .unwrap();
        client
    }

    #[track_caller]
    fn release_as(&self, role: &str) -> Finished {
        let words = ["-U", role, "-f", "--raw", "42"];
        release(&self.database, &words).run()
    }
}

fn database() -> String {
    Server::shared().database()
}

fn pglock(database: &str) -> Pglock {
    Pglock::new(Server::shared()).env("PGDATABASE", database)
}

fn release(database: &str, words: &[&str]) -> Pglock {
    pglock(database).arg("release").args(words)
}

#[track_caller]
fn client(database: &str) -> Client {
    Server::shared().client_as(database, "postgres")
}

/// A session of another program that has called this for a lock.
#[track_caller]
fn holding(database: &str, call: &str) -> Client {
    let mut client = client(database);
    client.batch_execute(&format!("SELECT {call}")).unwrap();
    client
}

fn lives(client: &mut Client) -> bool {
    client.simple_query("SELECT 1").is_ok()
}
