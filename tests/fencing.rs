//! `--token`: a number that rises with every acquisition, and what a table does with it.

use nix::sys::signal::{Signal, kill};

use crate::readme::blocks;
use crate::support::{
    Finished, Pglock, PoolMode, Proxy, Server, Shutdown, Site, Standby, child_named, children_of,
    holders, process_state, until,
};

const TELL: [&str; 3] = ["sh", "-c", "echo $PGLOCK_TOKEN"];

#[test]
fn tokens_rise_across_crashes_and_promotion() {
    let server = Server::start();
    // The worst that a role may set: what is committed is not flushed.
    let role = server.role("");
    server.execute(&format!("ALTER ROLE {role} SET synchronous_commit = off"));
    server.execute(&format!(
        "ALTER ROLE {role} SET default_transaction_read_only = on"
    ));
    let mut tokens = Vec::new();
    let take = |name: &str| {
        token(
            &Pglock::new(&server)
                .env("PGUSER", &role)
                .args(["run", "--token", name])
                .args(TELL)
                .run(),
        )
    };
    for at in 0..6 {
        // Different locks: it rises in the cluster.
        tokens.push(take(["a", "b"][at % 2]));
        if at % 2 == 1 {
            server.crash();
            server.start_again();
        }
    }
    let standby = Standby::of(&server);
    tokens.push(take("a"));
    server.stop(Shutdown::Immediate);
    let mut client = standby.client();
    client.batch_execute("SELECT pg_promote()").unwrap();
    let promoted = Pglock::new(&server)
        .envs(standby.env())
        .args(["run", "--token", "a"]);
    tokens.push(token(&promoted.args(TELL).run()));
    assert!(tokens.is_sorted_by(|a, b| a < b), "{tokens:?}");
    assert!(tokens[7].starts_with("00000002"), "{tokens:?}");
}

#[test]
fn one_who_waited_has_a_higher_token_than_whom_it_waited_for() {
    let server = Server::shared();
    let script = ["sh", "-c", "echo $PGLOCK_TOKEN; exec cat"];
    let mut first = Pglock::new(server)
        .args(["run", "--token", "line"])
        .args(script)
        .spawn();
    first.wait_output("a token", |first| first.stdout_so_far().ends_with('\n'));
    let mut second = Pglock::new(server)
        .args(["run", "-v", "--token", "line"])
        .args(TELL)
        .spawn();
    second.wait_stderr("ahead in line");
    let first = first.let_go();
    assert!(token(&first) < token(&second.wait()));
}

#[test]
fn behind_a_transaction_pooler_no_vacuum_is_held_back() {
    let site = Site::new(PoolMode::Transaction, 5, &[]);
    let words = ["run", "--scope", "transaction", "--token", "pooled"];
    let script = ["sh", "-c", "echo $PGLOCK_TOKEN; exec cat"];
    let mut held = site.pooled().args(words).args(script).spawn();
    held.wait_output("a token", |held| held.stdout_so_far().ends_with('\n'));
    let mut client = site.server_client();
    let pid = holders(&mut client, "pooled")[0];
    let row = client
        .query_one(
            "SELECT backend_xid::text FROM pg_stat_activity WHERE pid = $1",
            &[&pid],
        )
        .unwrap();
    assert_eq!(row.get::<_, Option<String>>(0), None);
    let held = held.let_go();
    let next = site.pooled().args(words).args(TELL).run();
    assert!(token(&held) < token(&next));
}

#[test]
fn without_the_option_there_is_none() {
    let inherited = Pglock::new(Server::shared()).env("PGLOCK_TOKEN", "stale");
    let words = ["run", "no-token", "sh", "-c", "echo ${PGLOCK_TOKEN-none}"];
    inherited
        .args(words)
        .run()
        .assert_code(0)
        .assert_stdout("none\n");
}

/// A whole host that sleeps: pglock, its guardian and the command are stopped, and the server has given the lock away
/// when the command wakes up.
#[test]
fn a_table_refuses_who_slept_through_the_loss_of_its_lock() {
    let server = Server::start();
    let mut client = server.client();
    let [_, fence, _] = blocks("sql").try_into().unwrap();
    client.batch_execute(&fence).unwrap();
    let psql = format!(
        "psql -X -v ON_ERROR_STOP=1 -h {} -p {} -U postgres -d postgres",
        server.socket_dir().display(),
        server.port()
    );
    let write = |total: u32| {
        format!(
            "{psql} -c \"INSERT INTO report VALUES (current_date, {total}, '$PGLOCK_TOKEN') \
             ON CONFLICT (day) DO UPDATE SET total = excluded.total, token = excluded.token\""
        )
    };
    let proxy = Proxy::to(&server);
    let script = format!("echo ready; read -r line; {}", write(1));
    let words = ["run", "--token", "fenced", "sh", "-c", &script];
    let mut sleeper = Pglock::new(&server).through(&["setsid"]).envs(proxy.env());
    sleeper = sleeper.args(words);
    let mut sleeper = sleeper.spawn();
    sleeper.wait_line("ready");
    let pglock = sleeper.pid();
    let command = until("the command", || child_named(pglock, "sh"));
    let all: Vec<_> = children_of(pglock).into_iter().chain([pglock]).collect();
    for pid in &all {
        kill(*pid, Signal::SIGSTOP).unwrap();
        until("its stop", || process_state(*pid) == Some('T'));
    }
    proxy.cut();
    until("the end of its session", || {
        holders(&mut client, "fenced").is_empty()
    });
    let words = ["run", "--token", "fenced", "sh", "-c", &write(2)];
    let other = Pglock::new(&server).args(words).run();
    other.assert_code(0).assert_stdout("INSERT 0 1\n");

    kill(command, Signal::SIGCONT).unwrap();
    sleeper.write(b"go\n");
    sleeper.wait_stderr("is stale");
    let total = client
        .query_one("SELECT total::int FROM report", &[])
        .unwrap();
    assert_eq!(total.get::<_, i32>(0), 2);
    for pid in all {
        let _ = kill(pid, Signal::SIGCONT);
    }
    sleeper.wait().assert_code(123);
}

/// The token that a job printed.
#[track_caller]
fn token(finished: &Finished) -> String {
    finished.assert_code(0);
    let token = finished.stdout.trim().to_owned();
    let is_hex = |digit: char| digit.is_ascii_digit() || ('A'..='F').contains(&digit);
    finished.assert(token.len() == 24 && token.chars().all(is_hex), "a token");
    token
}
