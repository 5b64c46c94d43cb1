//! From a NAME to the key of its lock: the derivation is a promise, and the server's own SQL agrees with it.

use crate::support::{Finished, Pglock, Server};

/// What the contract gives as SQL, for an array of names.
const BIGINT_KEYS: &str = "
    SELECT ('x' || left(encode(sha256(convert_to(name, 'UTF8')), 'hex'), 16))::bit(64)::bigint
    FROM unnest($1::text[]) WITH ORDINALITY AS names (name, place) ORDER BY place";

/// The same for one half of a key in a namespace.
const INT4_KEYS: &str = "
    SELECT ('x' || left(encode(sha256(convert_to(name, 'UTF8')), 'hex'), 8))::bit(32)::int
    FROM unnest($1::text[]) WITH ORDINALITY AS names (name, place) ORDER BY place";

#[test]
fn the_golden_vector_holds_for_ever() {
    assert_keys(key(&["my_lock"]), &["9207781743510115226"]);
}

#[test]
fn keys_are_what_the_servers_own_sql_computes() {
    let names = random_names();
    let rows = Server::shared().client().query(BIGINT_KEYS, &[&names]);
    let rows = rows.unwrap();
    let keys: Vec<String> = rows
        .iter()
        .map(|row| row.get::<_, i64>(0).to_string())
        .collect();
    assert_keys(key(&["--"]).args(&names), &keys);
}

#[test]
fn keys_in_a_namespace_are_two_halves_that_the_servers_own_sql_computes() {
    let names = random_names();
    let (namespace, names) = names.split_first().unwrap();
    let mut client = Server::shared().client();
    let mut halves = |texts: &[String]| -> Vec<i32> {
        let rows = client.query(INT4_KEYS, &[&texts]).unwrap();
        rows.iter().map(|row| row.get(0)).collect()
    };
    let first = halves(std::slice::from_ref(namespace))[0];
    let keys: Vec<String> = halves(names)
        .iter()
        .map(|second| format!("{first},{second}"))
        .collect();

    let option = format!("--namespace={namespace}");
    assert_keys(key(&[&option, "--"]).args(names), &keys);
    let variable = key(&["--"]).env("PGLOCK_NAMESPACE", namespace);
    assert_keys(variable.args(names), &keys);
}

#[test]
fn the_namespace_option_wins_over_the_variable_and_an_empty_variable_is_none() {
    let in_a = printed(key(&["-N", "a", "x"]));
    let both = key(&["-N", "a", "x"]).env("PGLOCK_NAMESPACE", "b");
    assert_eq!(printed(both), in_a);
    assert_ne!(printed(key(&["-N", "b", "x"])), in_a);
    let empty = key(&["my_lock"]).env("PGLOCK_NAMESPACE", "");
    assert_keys(empty, &["9207781743510115226"]);
}

#[test]
fn a_raw_key_is_printed_as_it_is() {
    for raw in [
        "0",
        "42",
        "9223372036854775807",
        "0,42",
        "2147483647,-2147483648",
    ] {
        assert_keys(key(&["--raw", raw]), &[raw]);
    }
    for negative in ["-1", "-5", "-9223372036854775808"] {
        assert_keys(key(&["--raw", negative]), &[negative]);
    }
    for negative_pair in ["-1,5", "-2147483648,2147483647"] {
        assert_keys(key(&["--raw", "--", negative_pair]), &[negative_pair]);
    }
}

#[test]
fn a_raw_key_knows_no_namespace() {
    let raw = key(&["--raw", "42"]).env("PGLOCK_NAMESPACE", "ns");
    assert_keys(raw, &["42"]);
}

#[test]
fn several_names_are_answered_in_their_order_one_a_line() {
    let one = printed(key(&["a b"]));
    let other = printed(key(&["c"]));
    let both = printed(key(&["a b", "c", "a b"]));
    assert_eq!(both, format!("{one}{other}{one}"));
}

#[test]
fn the_printed_key_is_the_key_that_run_holds() {
    let server = Server::shared();
    let name = "keys: printed and held";
    for options in [&[][..], &["-N", "keys: ns"]] {
        let printed = printed(key(options).arg(name));
        let holder = Pglock::new(server).args(options).hold(name);
        assert_eq!(held_by_session_of(name, server), [printed.trim_end()]);
        holder.let_go().assert_code(0).assert_stderr("");
    }
}

/// The keys of the locks of the sessions that bear this name, as the server's lock table shows them.
fn held_by_session_of(name: &str, server: &Server) -> Vec<String> {
    let sql = "
        SELECT CASE objsubid
            WHEN 1 THEN ((classid::bigint << 32) | objid::bigint)::text
            ELSE (classid::bigint::bit(32)::int)::text || ',' || (objid::bigint::bit(32)::int)::text END
        FROM pg_locks JOIN pg_stat_activity USING (pid)
        WHERE locktype = 'advisory' AND granted AND strpos(application_name, $1) > 0";
    let rows = server.client().query(sql, &[&name]).unwrap();
    rows.iter().map(|row| row.get(0)).collect()
}

/// `pglock key` where there is no server.
fn key(arguments: &[&str]) -> Pglock {
    let pglock = Pglock::without_server().env("PGHOST", "/nonexistent");
    pglock.arg("key").args(arguments)
}

#[track_caller]
fn assert_keys(pglock: Pglock, keys: &[impl AsRef<str>]) {
    let lines: String = keys
        .iter()
        .map(|key| key.as_ref().to_owned() + "\n")
        .collect();
    let finished: Finished = pglock.run();
    finished
        .assert_code(0)
        .assert_stderr("")
        .assert_stdout(&lines);
}

#[track_caller]
fn printed(pglock: Pglock) -> String {
    let finished = pglock.run();
    finished.assert_code(0).assert_stderr("");
    finished.stdout
}

/// 200 names of 1 to 40 characters, most of which are unusual in names.
pub fn random_names() -> Vec<String> {
    let characters: Vec<char> = "abcXYZ019 -_/.:'\"\\%*[]#|\n\t\u{1}éß漢字😀\u{202e}"
        .chars()
        .collect();
    let name = || {
        let length = fastrand::usize(1..=40);
        (0..length)
            .map(|_| characters[fastrand::usize(..characters.len())])
            .collect()
    };
    (0..200).map(|_| name()).collect()
}
