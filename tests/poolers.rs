//! Behind a pooler: refused where backends are shared out, with nothing left on them, and at work where they are not.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use nix::sys::signal::Signal;
use postgres::Client;

use crate::support::{
    Finished, Pglock, PoolMode, Pooler, Running, Server, Site, holders, until, waiters,
};

/// Refusals asked for in each configuration, half of `try` and half of `run`: one that is not given now and then is a
/// command that runs without its lock.
const ROUNDS: usize = 20;

#[test]
fn transaction_pooling_on_one_backend_is_refused() {
    for round_robin in [0, 1] {
        let site = Site::new(PoolMode::Transaction, 1, &[round_robin_is(round_robin)]);
        assert_refuses_always(&site);
    }
}

#[test]
fn transaction_pooling_on_several_backends_is_refused() {
    for round_robin in [0, 1] {
        let site = Site::new(PoolMode::Transaction, 5, &[round_robin_is(round_robin)]);
        assert_refuses_always(&site);
    }
}

#[test]
fn transaction_pooling_on_one_busy_backend_is_refused() {
    for round_robin in [0, 1] {
        let site = Site::new(PoolMode::Transaction, 1, &[round_robin_is(round_robin)]);
        let load = Load::start(&site, 3);
        assert_refuses_always(&site);
        load.stop();
    }
}

#[test]
fn transaction_pooling_on_several_busy_backends_is_refused() {
    for round_robin in [0, 1] {
        let site = Site::new(PoolMode::Transaction, 5, &[round_robin_is(round_robin)]);
        let load = Load::start(&site, 8);
        assert_refuses_always(&site);
        load.stop();
    }
}

#[test]
fn statement_pooling_is_refused() {
    for size in [1, 5] {
        let site = Site::new(PoolMode::Statement, size, &[round_robin_is(1)]);
        assert_refuses_always(&site);
        let load = Load::start(&site, 3);
        assert_refuses_always(&site);
        load.stop();
    }
}

#[test]
fn a_lock_that_others_hold_does_not_hide_the_pooler() {
    let site = Site::new(PoolMode::Transaction, 5, &[]);
    let holder = site.direct().hold("taken");
    for verb in ["try", "run"] {
        assert_refused(&site.pooled().args([verb, "taken", "echo", "ran"]).run());
    }
    holder.let_go().assert_code(0).assert_stderr("");
}

#[test]
fn list_and_release_work_behind_transaction_pooling() {
    let site = Site::new(PoolMode::Transaction, 5, &[]);
    let load = Load::start(&site, 8);
    for _ in 0..10 {
        let mut holder = site.direct().hold("listed");
        let list = site.pooled().args(["list", "--json", "listed"]).run();
        let listed = list.assert_code(0).assert_stderr("").stdout.clone();
        let locks: serde_json::Value = serde_json::from_str(&listed).unwrap();
        assert_eq!(locks.as_array().unwrap().len(), 1, "{listed}");
        assert_eq!(locks[0]["name"], "listed", "{listed}");

        assert!(holder.is_running());
        let release = ["release", "--force", "listed"];
        site.pooled()
            .args(release)
            .run()
            .assert_code(0)
            .assert_stdout("");
        holder
            .wait()
            .assert_code(123)
            .assert_stderr_has("listed was lost: ");
    }
    load.stop();
    site.assert_untouched();
}

#[test]
fn session_pooling_works_and_excludes() {
    // Nothing but pglock itself frees the lock.
    let site = Site::new(PoolMode::Session, 5, &["server_reset_query ="]);
    let mut client = site.server_client();

    let holder = site.pooled().hold("session");
    assert_eq!(holders(&mut client, "session").len(), 1);
    for other in [site.pooled(), site.direct()] {
        assert_busy(&other.args(["try", "session", "echo", "ran"]).run());
    }
    holder.let_go().assert_code(0).assert_stderr("");
    assert!(holders(&mut client, "session").is_empty());

    let holder = site.direct().hold("session");
    assert_busy(&site.pooled().args(["try", "session", "echo", "ran"]).run());
    let waiter = site.pooled().args(["run", "session", "echo", "ran"]);
    let waiter = waiter.spawn();
    until("the waiter", || waiters(&mut client, "session").len() == 1);
    assert_eq!(waiter.stdout_so_far(), "");
    holder.let_go().assert_code(0).assert_stderr("");
    assert_ran(&waiter.wait());
    assert!(holders(&mut client, "session").is_empty());
}

#[test]
fn the_backend_behind_session_pooling_is_the_servers_own() {
    let site = Site::new(PoolMode::Session, 5, &[]);
    assert_holds_by_its_backend(&site, site.pooled());
}

#[test]
fn a_session_behind_a_pooler_that_is_killed_leaves_nothing() {
    let site = Site::new(PoolMode::Session, 2, &[]);
    let mut client = site.server_client();
    for _ in 0..5 {
        assert_freed_when_killed(&mut client, site.pooled().hold("killed"), "killed");
        assert_ran(&site.pooled().args(["try", "killed", "echo", "ran"]).run());
    }
    drop(client);
    site.assert_untouched();
}

#[test]
fn session_pooling_with_no_backend_to_compare_is_refused() {
    let site = Site::new(PoolMode::Session, 1, &[]);
    for verb in ["try", "run"] {
        let finished = site.pooled().args([verb, "only", "echo", "ran"]).run();
        finished
            .assert_code(122)
            .assert_stdout("")
            .assert_one_message()
            .assert_stderr_has("a pooler stands between and has no second backend free")
            .assert_stderr_has("connect to the server itself")
            .assert(finished.took < Duration::from_secs(10), "an end in seconds");
    }
    site.assert_untouched();
}

#[test]
fn pgpool_in_front_of_one_server_works_and_excludes() {
    let server = Server::shared();
    let site = Site::of(server, Pooler::pgpool(server), PoolMode::Session, 8);
    let mut client = site.server_client();
    assert_holds_by_its_backend(&site, site.pooled());

    let holder = site.pooled().hold("pgpool");
    for other in [site.pooled(), site.direct()] {
        assert_busy(&other.args(["try", "pgpool", "echo", "ran"]).run());
    }
    holder.let_go().assert_code(0).assert_stderr("");
    assert!(holders(&mut client, "pgpool").is_empty());

    assert_freed_when_killed(&mut client, site.pooled().hold("pgpool"), "pgpool");
    assert_ran(&site.pooled().args(["try", "pgpool", "echo", "ran"]).run());
}

fn round_robin_is(on: u8) -> &'static str {
    ["server_round_robin = 0", "server_round_robin = 1"][usize::from(on)]
}

/// Clients of the pooler that run one short transaction after the other.
struct Load {
    stopped: Arc<AtomicBool>,
    count: Arc<AtomicU64>,
    threads: Vec<JoinHandle<()>>,
}

impl Load {
    #[track_caller]
    fn start(site: &Site, clients: usize) -> Self {
        let (stopped, count) = (Arc::<AtomicBool>::default(), Arc::<AtomicU64>::default());
        let threads = (0..clients).map(|_| {
            let (stopped, count) = (Arc::clone(&stopped), Arc::clone(&count));
            let mut client = site.pooler.client(&site.database);
            let transaction: &[&str] = match site.mode {
                PoolMode::Statement => &["SELECT 1"],
                PoolMode::Session | PoolMode::Transaction => &["BEGIN", "SELECT 1", "COMMIT"],
            };
            thread::spawn(move || {
                while !stopped.load(Ordering::Relaxed) {
                    for statement in transaction {
                        client.batch_execute(statement).unwrap();
                    }
                    count.fetch_add(1, Ordering::Relaxed);
                }
            })
        });
        let threads = threads.collect();
        Self {
            stopped,
            count,
            threads,
        }
    }

    /// Ends the load, which must have been one until now.
    #[track_caller]
    fn stop(mut self) {
        let before = self.count.load(Ordering::Relaxed);
        until("more transactions", || {
            self.count.load(Ordering::Relaxed) > before
        });
        self.stopped.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            thread.join().expect("no transaction failed");
        }
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.stopped.store(true, Ordering::Relaxed);
    }
}

#[track_caller]
fn assert_refuses_always(site: &Site) {
    for round in 0..ROUNDS {
        let verb = ["try", "run"][round % 2];
        assert_refused(
            &site
                .pooled()
                .args([verb, "shared-out", "echo", "ran"])
                .run(),
        );
    }
    site.assert_untouched();
}

#[track_caller]
fn assert_refused(finished: &Finished) {
    finished
        .assert_code(122)
        .assert_stdout("")
        .assert_one_message()
        .assert_stderr_has("a pooler gives the statements of this session to different backends")
        .assert_stderr_has("connect to the server itself")
        .assert_stderr_has("pool_mode=session");
}

#[track_caller]
fn assert_busy(finished: &Finished) {
    finished
        .assert_code(75)
        .assert_stdout("")
        .assert_stderr_has(" is held by postgres ")
        .assert_one_message();
}

#[track_caller]
fn assert_ran(finished: &Finished) {
    finished
        .assert_code(0)
        .assert_stdout("ran\n")
        .assert_stderr("");
}

/// Runs a command under a lock through the pooler, which is told the backend that the server knows as the holder.
#[track_caller]
fn assert_holds_by_its_backend(site: &Site, pglock: Pglock) {
    let script = "echo \"$PGLOCK_BACKEND_PID\"; exec cat";
    let running = pglock.args(["run", "whose", "sh", "-c", script]);
    let mut running = running.spawn();
    running.wait_output("a line", |running| running.stdout_so_far().ends_with('\n'));
    let told = running.stdout_so_far();
    let mut client = site.server_client();
    let holding = holders(&mut client, "whose");
    assert_eq!(holding.len(), 1);
    assert_eq!(told, format!("{}\n", holding[0]));
    running.let_go().assert_code(0).assert_stderr("");
    assert!(holders(&mut client, "whose").is_empty());
}

#[track_caller]
fn assert_freed_when_killed(client: &mut Client, mut holder: Running, name: &str) {
    assert_eq!(holders(client, name).len(), 1);
    holder.signal(Signal::SIGKILL);
    holder.let_go().assert_signal(9);
    until("the lock to be free", || holders(client, name).is_empty());
}
