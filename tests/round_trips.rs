//! How often pglock waits for the server: each round trip is a delay that every run has.
//!
//! The start-up is one round trip where no password is asked for. The good-bye awaits no answer, but counts as a flight.

use crate::support::{Finished, Pglock, Proxy, Server, await_solitude};

#[test]
fn a_run_takes_three_round_trips_and_a_good_bye() {
    let (finished, flights) = through_a_proxy(&["run", "trips", "true"], None);
    finished.assert_code(0).assert_silent();
    assert_eq!(flights, [4], "start-up, lock, unlock, good-bye");
}

#[test]
fn a_shared_run_in_a_namespace_takes_no_more() {
    let (finished, flights) = through_a_proxy(&["run", "-s", "-N", "a", "trips", "true"], None);
    finished.assert_code(0).assert_silent();
    assert_eq!(flights, [4], "start-up, lock, unlock, good-bye");
}

#[test]
fn a_command_that_cannot_start_takes_no_more() {
    let (finished, flights) = through_a_proxy(&["run", "trips", "no-such-program"], None);
    finished
        .assert_code(127)
        .assert_stdout("")
        .assert_stderr("pglock: no-such-program: command not found\n");
    assert_eq!(flights, [4], "start-up, lock, unlock, good-bye");
}

#[test]
fn a_quiet_try_of_a_held_lock_takes_two_round_trips() {
    let (finished, flights) =
        through_a_proxy(&["try", "-q", "trips", "echo", "ran"], Some("trips"));
    finished.assert_code(75).assert_silent();
    // It need not take leave of a session that holds nothing.
    assert!(
        flights == [2] || flights == [3],
        "start-up, lock: {flights:?}"
    );
}

#[test]
fn a_try_that_names_the_holder_takes_one_more() {
    let (finished, flights) = through_a_proxy(&["try", "trips", "echo", "ran"], Some("trips"));
    finished
        .assert_code(75)
        .assert_stdout("")
        .assert_stderr_has("trips is held by ")
        .assert_one_message();
    assert_eq!(flights, [4], "start-up, lock, who holds it, good-bye");
}

#[test]
fn a_list_takes_two_round_trips_and_a_good_bye() {
    let (finished, flights) = through_a_proxy(&["list", "--format", "json"], None);
    finished
        .assert_code(0)
        .assert_stdout("[]\n")
        .assert_stderr("");
    assert_eq!(flights, [3], "start-up, query, good-bye");
}

/// Runs pglock through a relay, in a database of its own where this lock may be held; and its sessions' flights.
#[track_caller]
fn through_a_proxy(words: &[&str], held: Option<&str>) -> (Finished, Vec<usize>) {
    let server = Server::shared();
    let database = server.database();
    let pglock = || Pglock::new(server).env("PGDATABASE", &database);
    let holder = held.map(|name| pglock().hold(name));
    let proxy = Proxy::to(server);
    let finished = pglock()
        .envs(proxy.env())
        .env("PGSSLMODE", "disable")
        .args(words)
        .run();
    if let Some(holder) = holder {
        holder.let_go().assert_code(0).assert_stderr("");
    }
    // The server's session ends after all that was sent to it has passed the relay.
    await_solitude(&mut server.client_as(&database, "postgres"));
    (finished, proxy.flights())
}
