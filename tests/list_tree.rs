//! `list --tree`: each waiter stands beneath one that it waits for.

use crate::list::{database, holding, list};
use crate::support::{Pglock, Server, Waiter, backend_pid};

#[test]
fn waiters_stand_beneath_their_holder_and_chains_beneath_one_another() {
    let server = Server::shared();
    let database = database();
    let mut root = holding(&database, "pg_advisory_lock(5001)");
    let middle = Waiter::start(
        server,
        &database,
        "pg_advisory_lock(5002), pg_advisory_lock(5001)",
    );
    let leaf = Waiter::start(server, &database, "pg_advisory_lock_shared(5002)");
    let second = Waiter::start(server, &database, "pg_advisory_lock(5001)");
    let _alone = holding(&database, "pg_advisory_lock(5003)");
    let root = backend_pid(&mut root);
    let (middle, leaf, second) = (middle.pid(), leaf.pid(), second.pid());
    for (locale, [child, last, line]) in [
        ("C.UTF-8", ["├─ ", "└─ ", "│  "]),
        ("C", ["|- ", "`- ", "|  "]),
    ] {
        let tree = list(&database, &["--tree"]).env("LC_ALL", locale).run();
        tree.assert_code(0).assert_stderr("");
        let rows: Vec<&str> = tree.stdout.lines().skip(1).collect();
        tree.assert(rows.len() == 6, "six rows");
        let at = rows
            .iter()
            .position(|row| row.contains(&format!(" {root} ")));
        let beneath = &rows[at.unwrap()..];
        let expected = [
            ("?".to_owned(), "5001", "held", root),
            (format!("{child}?"), "5001", "waiting", middle),
            (format!("{line}{last}?"), "5002", "held", middle),
            (format!("{line}   {last}?"), "5002", "waiting", leaf),
            (format!("{last}?"), "5001", "waiting", second),
        ];
        for ((branch, key, state, pid), row) in expected.iter().zip(beneath) {
            assert!(row.starts_with(branch), "{branch} in {tree:?}");
            let cells: Vec<&str> = row[branch.len()..].split_whitespace().collect();
            let pid = pid.to_string();
            assert_eq!(
                [cells[0], cells[1], cells[3]],
                [*key, *state, &pid],
                "{tree:?}"
            );
        }
    }
}

#[test]
fn a_waiter_for_a_prepared_transaction_stands_beneath_it() {
    let server = Server::start();
    server.execute("BEGIN; SELECT pg_advisory_xact_lock(5005); PREPARE TRANSACTION 'forgotten'");
    let _waiter = Waiter::start(&server, "postgres", "pg_advisory_lock(5005)");
    let tree = Pglock::new(&server)
        .args(["list", "--tree", "--wide"])
        .run();
    tree.assert_code(0).assert_stderr("");
    let [_, holder, waiter] = tree.stdout.lines().collect::<Vec<_>>().try_into().unwrap();
    tree.assert(holder.contains(" prepared "), "the holder first");
    tree.assert(waiter.starts_with("└─ ?"), "its waiter beneath");
    tree.assert(waiter.ends_with(" prepared"), "whom it waits for");
}

#[test]
fn a_tree_is_for_the_table_only() {
    for words in [
        &["--tree", "--json"][..],
        &["--tree", "--format", "json"],
        &["--tree", "--format", "csv"],
        &["--tree", "--format", "prometheus"],
        &["--tree", "-q"],
    ] {
        let refused = Pglock::without_server().arg("list").args(words).run();
        refused
            .assert_code(125)
            .assert_stdout("")
            .assert_one_message();
    }
}
