//! Statements that are cancelled: by a role's timeout before it is lifted, or by somebody.

use crate::support::{Pglock, Server, holders, until};

#[test]
fn the_shortest_statement_timeout_ended_a_run_now_and_then() {
    let server = Server::shared();
    let role = server.role("");
    server.execute(&format!("ALTER ROLE {role} SET statement_timeout = 1"));
    let pglock = || Pglock::new(server).env("PGUSER", &role);
    for round in 0..60 {
        let scope = ["session", "transaction"][round % 2];
        let name = format!("hasty-{round}");
        pglock()
            .args(["run", "--scope", scope, &name, "echo", "ran"])
            .run()
            .assert_code(0)
            .assert_stdout("ran\n")
            .assert_stderr("");
    }
    let listed = pglock().args(["list", "--json"]).run();
    listed.assert_code(0).assert_stderr("");
}

#[test]
fn statements_that_are_compiled_first_took_longer_than_the_timeout() {
    let server = Server::shared();
    let role = server.role("");
    for setting in [
        "statement_timeout = 50",
        "jit_above_cost = 0",
        "jit_inline_above_cost = 0",
    ] {
        server.execute(&format!("ALTER ROLE {role} SET {setting}"));
    }
    for scope in ["session", "transaction"] {
        Pglock::new(server)
            .env("PGUSER", &role)
            .args(["run", "--scope", scope, "compiled", "echo", "ran"])
            .run()
            .assert_code(0)
            .assert_stdout("ran\n")
            .assert_stderr("");
    }
}

#[test]
fn a_cancelled_heartbeat_is_not_a_lost_lock() {
    let server = Server::shared();
    let mut client = server.client();
    let mut holder = Pglock::new(server)
        .args(["--lease", "3s"])
        .hold("cancelled");
    let backend = holders(&mut client, "cancelled")[0];
    let state =
        "SELECT query_start::text, pg_cancel_backend(pid) FROM pg_stat_activity WHERE pid = $1";
    let mut beats = std::collections::BTreeSet::new();
    // As often as can be, so that some meet a heartbeat.
    until("four heartbeats under fire", || {
        let row = client.query_one(state, &[&backend]).unwrap();
        beats.insert(row.get::<_, String>(0));
        beats.len() > 4
    });
    assert!(holder.is_running());
    holder.let_go().assert_code(0).assert_stderr("");
}
