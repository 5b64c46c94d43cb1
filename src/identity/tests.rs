//! What is said, and what is told by it.

use super::said::LONGEST_NAME_IN_QUERY;
use super::told::named;
use super::*;
use crate::claim::Claim;
use crate::key::{Lock, Rule};

fn identity(namespace: Option<&str>, name: &str) -> Identity {
    by_rule(Rule::default(), namespace, name)
}

fn by_rule(rule: Rule, namespace: Option<&str>, name: &str) -> Identity {
    let namespace = namespace.map(str::to_owned);
    let lock = named(rule, namespace, name.to_owned()).expect("it has a key");
    Identity {
        claim: Claim::of(lock),
        host: "web-1.example".to_owned(),
        wrapper_pid: 4242,
        command: "sh -c 'x && y' */ &=% /* /".to_owned(),
    }
}

#[test]
fn what_is_told_is_read_back() {
    let odd = "  q\"uo'te/*x*/ #|%&=\n\u{1}é漢 ".to_owned();
    for (namespace, name) in [
        (None, "nightly-report"),
        (Some("billing"), "nightly-report"),
        (Some("#a|b/c"), "#x"),
        (None, "#1"),
        (None, "a/b (c:1)"),
        (None, odd.as_str()),
        (None, "n".repeat(200).as_str()),
        (None, "漢".repeat(200).as_str()),
    ] {
        let said = identity(namespace, name);
        for utf8 in [true, false] {
            let query = said.comment(Some(Since::Waiting(7)), utf8) + "SELECT 1";
            assert_eq!(query.matches("/*").count(), 1, "{query}");
            assert_eq!(query.matches("*/").count(), 1, "{query}");
            assert!(utf8 || query.is_ascii());
            let told = Told::by(&said.application_name(Stage::Waiting(Mode::Shared)), &query);
            let told = told.expect("a pglock session is recognised");
            assert_eq!(
                told.lock.as_ref().map(|lock| lock.key),
                Some(said.claim.lock.key),
                "{name}"
            );
            let kept = utf8 || name.len() < LONGEST_NAME_IN_QUERY / 3;
            assert_eq!(
                told.lock.is_some_and(|lock| lock.name.is_some()),
                kept,
                "{name}"
            );
            assert_eq!(told.host.as_deref(), Some("web-1.example"));
            assert_eq!(told.command.as_deref(), Some(said.command.as_str()));
            assert_eq!(told.since, Some(Since::Waiting(7)));
            assert_eq!(told.stage, Stage::Waiting(Mode::Shared));
        }
    }
}

#[test]
fn the_rule_is_told_with_the_name_in_both_places() {
    for (word, namespace, name) in [
        ("crc32", None, "plumless"),
        ("hashtext", Some("a|b"), "#x:y"),
        ("golang-migrate", None, "app,public"),
    ] {
        let rule = Rule::of(word).expect("known");
        let said = by_rule(rule, namespace, name);
        let label = said.application_name(Stage::Holding(0));
        assert_eq!(
            lock_told(&label, "").as_ref(),
            Some(&said.claim.lock),
            "{label}"
        );
        let query = said.comment(None, true);
        assert_eq!(lock_told("pglock: #1 (h:1)", &query), Some(said.claim.lock));
    }
    assert_eq!(lock_told("pglock: #no-such-rule:x (h:1)", ""), None);
    let unknown = "/*pglock rule=no-such-rule&name=x */";
    assert_eq!(
        lock_told("pglock: #1 (h:1)", unknown).and_then(|lock| lock.name),
        None
    );
}

fn lock_told(application_name: &str, query: &str) -> Option<Lock> {
    Told::by(application_name, query).expect("recognised").lock
}

#[test]
fn an_application_name_fits_and_keeps_the_key_whatever_the_name() {
    for name in ["x", &"n".repeat(200), "漢漢漢漢漢漢漢"] {
        let mut said = identity(None, name);
        said.host = "a-rather-long-host-name.in.some.cluster.example.org".to_owned();
        said.wrapper_pid = 4_194_304;
        for stage in Stage::ALL {
            let shown = said.application_name(stage);
            assert!(shown.is_ascii() && shown.len() <= 63, "{shown}");
            let told = Told::by(&shown, "").expect("recognised");
            assert_eq!(told.lock.map(|lock| lock.key), Some(said.claim.lock.key));
            assert_eq!(told.wrapper_pid, Some(4_194_304));
        }
    }
}

#[test]
fn slots_and_other_locks_are_told_with_the_lock() {
    for name in ["jobs", "a#1/2", "|", &"n".repeat(200)] {
        for namespace in [None, Some("#")] {
            let mut said = identity(namespace, name);
            said.claim.slots = Some(12);
            said.claim.also = ["x", "y&z"]
                .map(|also| {
                    let namespace = namespace.map(str::to_owned);
                    named(Rule::default(), namespace, also.to_owned()).expect("it has a key")
                })
                .to_vec();
            let comment = said.comment(None, true);
            for stage in [
                Stage::Holding(0),
                Stage::Holding(11),
                Stage::Waiting(Mode::Exclusive),
            ] {
                let shown = said.application_name(stage);
                assert!(shown.len() <= 63, "{shown}");
                let told = Told::by(&shown, &comment).expect("recognised");
                assert_eq!((told.stage, told.slots), (stage, Some(12)), "{shown}");
                assert_eq!(told.lock.map(|lock| lock.key), Some(said.claim.lock.key));
                assert_eq!(told.also, said.claim.also);
                assert!(!told.more);
            }
        }
    }
}

#[test]
fn what_was_left_out_of_a_comment_or_cut_off_is_known_to_be_missing() {
    let mut said = identity(None, "nightly-report");
    let others = |count: usize| {
        let names = (0..count).map(|at| format!("{at}-{}", "n".repeat(100)));
        let locks = names.map(|name| named(Rule::default(), None, name).expect("it has a key"));
        locks.collect::<Vec<_>>()
    };
    let told = |query: &str| Told::by("pglock? #1 (h:1)", query).expect("recognised");
    for (count, more) in [(0, false), (3, false), (20, true)] {
        said.claim.also = others(count);
        let comment = said.comment(None, true);
        assert_eq!(told(&comment).more, more, "{comment}");
        assert_eq!(told(&comment).also.len() < count, more);
        let cut_off = comment.find("&command").expect("it is told");
        assert!(told(&comment[..cut_off]).more);
    }
    assert!(!told("SELECT 1").more);
}

#[test]
fn a_comment_that_was_cut_off_yields_no_half_name() {
    let said = identity(None, "nightly-report");
    let query = said.comment(None, true);
    for end in 0..query.len() {
        let told = Told::by("pglock: #1 (h:1)", &query[..end]).expect("recognised");
        let name = told.lock.and_then(|lock| lock.name);
        assert!(
            name.is_none_or(|name| name.name == "nightly-report"),
            "{}",
            &query[..end]
        );
    }
}

#[test]
fn other_programs_are_not_taken_for_pglock() {
    for other in [
        "",
        "psql",
        "pglock",
        "pglock list",
        "pglock: x",
        "pglock? (a:b)",
    ] {
        assert_eq!(Told::by(other, "/*pglock name=x*/"), None, "{other}");
    }
}
