//! A host that vanishes: its command is dead before the server frees its lock, and the server frees it soon.

use std::fs;
use std::time::{Duration, Instant};

use crate::support::network::{self, OtherHost};
use nix::sys::signal::Signal;

use crate::support::{Pglock, Running, Server, child_named, holders, process_state, until, within};

/// Ignores TERM, and shows until when it lived.
const LIVES: &str = "trap '' TERM; while :; do echo alive; sleep 0.05; done";

#[test]
fn the_command_is_dead_before_the_lock_is_free() {
    if !network::in_own_network("vanished_host::the_command_is_dead_before_the_lock_is_free") {
        return;
    }
    let host = OtherHost::plug_in();
    let server = Server::with(&["listen_addresses = '*'"]);
    let rules = server.data_dir().join("pg_hba.conf");
    let others = fs::read_to_string(&rules).unwrap();
    fs::write(&rules, format!("host all all all trust\n{others}")).unwrap();
    server.execute("SELECT pg_reload_conf()");

    let start = |name: &str, options: &[&str]| {
        let launcher = host.launcher();
        let launcher: Vec<&str> = launcher.iter().map(String::as_str).collect();
        let mut running = Pglock::new(&server)
            .env("PGHOST", network::SERVER)
            .env("PGSSLMODE", "disable")
            .through(&launcher)
            .through(&["setsid"])
            .arg("run")
            .args(options)
            .args([name, "sh", "-c", LIVES])
            .spawn();
        running.wait_line("alive");
        running
    };
    let by_default = start("vanishes", &[]);
    let with_short_lease = start("vanishes-soon", &["--lease", "6s", "--grace", "1s"]);
    // Its guardian alone sees to it, with as long a grace as there can be.
    let mut orphaned = start("vanishes-orphaned", &["--lease", "4s", "--grace", "2s"]);
    let command = child_named(orphaned.pid(), "sh").expect("the command");
    orphaned.signal(Signal::SIGKILL);
    until("the end of pglock", || !orphaned.is_running());
    host.unplug();
    let unplugged = Instant::now();
    std::thread::scope(|threads| {
        let end = |running, lock, limit| {
            let server = &server;
            threads.spawn(move || assert_ends_in_order(server, running, lock, unplugged, limit));
        };
        end(by_default, "vanishes", Duration::from_secs(35));
        end(with_short_lease, "vanishes-soon", Duration::from_secs(11));
        threads.spawn(|| {
            let mut client = server.client();
            within(Duration::from_secs(9), "a free lock", || {
                holders(&mut client, "vanishes-orphaned").is_empty()
            });
            let state = process_state(command);
            assert!(
                matches!(state, None | Some('Z')),
                "free while its command ran"
            );
        });
    });
}

/// The command, and then the lock.
#[track_caller]
fn assert_ends_in_order(
    server: &Server,
    mut running: Running,
    lock: &str,
    unplugged: Instant,
    limit: Duration,
) {
    let mut client = server.client();
    within(limit, "the end of pglock", || !running.is_running());
    assert_eq!(holders(&mut client, lock).len(), 1, "free while {lock} ran");
    let dead = unplugged.elapsed();
    let left = limit.saturating_sub(dead);
    within(left, "a free lock", || {
        holders(&mut client, lock).is_empty()
    });
    running
        .wait()
        .assert_code(123)
        .assert_one_message()
        .assert_stderr_has(&format!(
            "pglock: {lock} was lost: no answer to a heartbeat within "
        ));
}
