//! Inputs that nobody would think of, for everything that reads what users write about connections.
//!
//! Those of `tests/corpus` are always tried, and a few thousand that are made up, the same each time. `scripts/fuzz`
//! makes up a million, other ones each time. What brings a fault to light belongs into the corpus.

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use proptest::prelude::{Just, Strategy, any};
use proptest::prop_oneof;
use proptest::sample::select;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use super::conninfo;
use super::template::{self, fill, with_shard};

/// Set by `scripts/fuzz`: how many inputs to make up for each check.
const CASES: &str = "PGLOCK_FUZZ_CASES";
const DEFAULT_CASES: u32 = 2000;

const CONNINFO_CORPUS: &str = include_str!("../../tests/corpus/conninfo.json");
const TEMPLATE_CORPUS: &str = include_str!("../../tests/corpus/template.json");

const CONNINFO_PIECES: [&str; 44] = [
    "postgres://",
    "postgresql://",
    "host",
    "hostaddr",
    "port",
    "user",
    "password",
    "dbname",
    "options",
    "ssl",
    "sslmode",
    "connect_timeout",
    "keepalives",
    "target_session_attrs",
    "service",
    "bogus",
    "true",
    "require",
    "s3cret",
    "127.0.0.1",
    "::1",
    "5432",
    "0",
    "-1",
    "65536",
    "=",
    "'",
    "\\",
    " ",
    "\t",
    "\n",
    "/",
    ":",
    "@",
    "?",
    "&",
    ",",
    "[",
    "]",
    "%",
    "%00",
    "%41",
    "%ff",
    "é",
];
const TEMPLATE_PIECES: [&str; 24] = [
    "{namespace}",
    "{shard:",
    "{shard:4}",
    "{shard:6}",
    "{shard:1024}",
    "{",
    "}",
    "0",
    "7",
    "postgres://",
    "host=",
    "dbname=",
    "options=",
    "user",
    "?",
    "&",
    "=",
    ",",
    "/",
    ":",
    "@",
    "'",
    "\\",
    " ",
];

/// Runs the check on every input of the corpus, a JSON array, and on many that are made up of it, of these pieces
/// and of stray characters. Fails with the smallest input that makes the check panic.
#[track_caller]
pub fn each(corpus: &str, pieces: &'static [&'static str], check: impl Fn(&str)) {
    let corpus: Vec<String> = serde_json::from_str(corpus).expect("an array of texts");
    for input in corpus.clone() {
        let once = runner(1, TestRng::deterministic_rng(RngAlgorithm::ChaCha));
        run(once, &Just(input), &check);
    }
    let piece = prop_oneof![
        12 => select(pieces).prop_map(str::to_owned),
        1 => select(corpus),
        2 => any::<char>().prop_map(String::from),
    ];
    let made_up = proptest::collection::vec(piece, 0..16).prop_map(|pieces| pieces.concat());
    run(for_made_up(), &made_up, &check);
}

/// [`each`] of what may be a connection string.
#[track_caller]
pub fn each_conninfo(check: impl Fn(&str)) {
    each(CONNINFO_CORPUS, &CONNINFO_PIECES, check);
}

fn run(mut runner: TestRunner, inputs: &impl Strategy<Value = String>, check: impl Fn(&str)) {
    let ran = runner.run(inputs, |input| {
        check(&input);
        Ok(())
    });
    ran.unwrap_or_else(|fault| panic!("{fault}"));
}

/// The same inputs each time, unless `scripts/fuzz` asks for others: no test may fail at random.
fn for_made_up() -> TestRunner {
    match std::env::var(CASES) {
        Ok(cases) => {
            let seed: [u8; 32] = std::array::from_fn(|_| fastrand::u8(..));
            let cases = cases.parse().expect("a number of cases");
            runner(cases, TestRng::from_seed(RngAlgorithm::ChaCha, &seed))
        }
        Err(_) => runner(
            DEFAULT_CASES,
            TestRng::deterministic_rng(RngAlgorithm::ChaCha),
        ),
    }
}

fn runner(cases: u32, random: TestRng) -> TestRunner {
    let config = Config {
        cases,
        failure_persistence: None,
        ..Config::default()
    };
    TestRunner::new_with_rng(config, random)
}

#[test]
fn fuzzed_connection_strings_are_read_or_refused_without_being_quoted() {
    each_conninfo(|text| {
        if let Err(error) = conninfo::parse("fuzz", text) {
            let message = error.to_string();
            assert!(!message.contains("s3cret"), "{message}");
        }
    });
}

#[test]
fn fuzzed_values_come_back_from_both_forms_of_a_connection_string() {
    each_conninfo(|value| {
        if value.is_empty() || value.contains('\0') {
            return;
        }
        let encoded = utf8_percent_encode(value, NON_ALPHANUMERIC);
        let quoted = value.replace('\\', r"\\").replace('\'', r"\'");
        for text in [
            format!("postgres://{encoded}:{encoded}@h/{encoded}?options={encoded}"),
            format!("user='{quoted}'password = '{quoted}' dbname='{quoted}' options='{quoted}'"),
        ] {
            let parameters = conninfo::parse("fuzz", &text).expect("a well-formed string");
            for name in ["user", "password", "dbname", "options"] {
                assert_eq!(parameters[name], value, "{name} in {text}");
            }
        }
    });
}

#[test]
fn fuzzed_templates_repeat_and_let_no_namespace_out_of_its_value() {
    const HOSTILE: &str = r"x' host=evil,evil?user=evil&password=\evil@evil:1/evil%41";
    each(TEMPLATE_CORPUS, &TEMPLATE_PIECES, |text| {
        let Ok(read) = with_shard(text, u64::MAX) else {
            return;
        };
        if let Ok(period) = template::period(text) {
            assert_eq!(with_shard(text, u64::MAX % period).as_ref(), Ok(&read));
        }
        let Ok(parameters) = conninfo::parse("fuzz", &read) else {
            return;
        };
        for namespace in [HOSTILE, "plain", text] {
            let mut filled = parameters.clone();
            if fill(&mut filled, Some(namespace)).is_err() {
                continue;
            }
            assert!(filled.keys().eq(parameters.keys()), "{namespace}");
            for list in ["host", "hostaddr", "port"] {
                let count = |value: &String| value.split(',').count();
                let counts = (filled.get(list).map(count), parameters.get(list).map(count));
                assert_eq!(counts.0, counts.1, "{list} with {namespace}");
            }
        }
    });
}
