//! What is typed wrong is refused before any connection is made, and help goes to standard output.

use std::ffi::{OsStr, OsString};
use std::io::ErrorKind;
use std::net::TcpListener;
use std::os::unix::ffi::OsStrExt;

use crate::support::{Finished, Pglock};

#[test]
fn what_is_no_command_of_pglock_is_a_usage_error() {
    assert_usage_errors(&[
        (&[], "subcommand"),
        (&["bogus"], "bogus"),
        (&["help", "bogus"], "bogus"),
        (&["--bogus"], "--bogus"),
        (&["--bogus", "run", "x", "true"], "--bogus"),
        (&["run", "--bogus", "x", "true"], "--bogus"),
        (&["try", "--bogus", "x", "true"], "--bogus"),
        (&["list", "--bogus"], "--bogus"),
        (&["release", "--bogus", "x"], "--bogus"),
        (&["key", "--bogus", "x"], "--bogus"),
    ]);
}

#[test]
fn a_missing_name_or_command_is_a_usage_error() {
    assert_usage_errors(&[
        (&["run"], "NAME"),
        (&["try"], "NAME"),
        (&["release"], "NAME"),
        (&["key"], "NAME"),
        (
            &["run", "x"],
            "no COMMAND to run under the lock 'x'; see pglock run --help",
        ),
        (&["run", "x", "--"], "no COMMAND to run under the lock 'x'"),
        (
            &["try", "--", "./x.sh"],
            "no COMMAND to run under the lock './x.sh'",
        ),
        (&["try", "x", "--"], "no COMMAND to run under the lock 'x'"),
        (
            &["run", "postgres://a:b@c/d"],
            "no COMMAND to run under the lock 'postgres://a:***@c/d'",
        ),
    ]);
}

#[test]
fn a_misplaced_password_is_not_repeated() {
    let uri = "postgres://app:s3cret@db/app";
    for words in [
        &["run", uri][..],
        &["run", "host=db password=s3cret"],
        &["check", uri],
        &[uri],
        &["list", "--password=s3cret"],
        &["--password", "s3cret", "list"],
        &["run", "--password", "s3cret"],
        &["list", "--format", uri],
        &["list", "--format=postgres://app:s3cret@db/app"],
        &["run", "-w", uri, "x", "true"],
    ] {
        let refused = Pglock::without_server().args(words).run();
        refused.assert_code(125).assert_one_message();
        refused.assert(!refused.stderr.contains("s3cret"), "no password");
    }
}

#[test]
fn an_empty_name_or_namespace_is_a_usage_error() {
    assert_usage_errors(&[
        (&["run", "", "true"], "name is empty"),
        (&["try", "", "true"], "name is empty"),
        (&["list", ""], "name is empty"),
        (&["list", "x", ""], "name is empty"),
        (&["release", "-f", ""], "name is empty"),
        (&["key", ""], "name is empty"),
        (&["run", "-N", "", "x", "true"], "namespace is empty"),
        (&["list", "-N", ""], "namespace is empty"),
        (&["release", "-N", "", "-f", "x"], "namespace is empty"),
        (&["key", "--namespace", "", "x"], "namespace is empty"),
    ]);
}

#[test]
fn a_raw_key_that_is_none_or_out_of_range_is_a_usage_error() {
    for bad in [
        "9223372036854775808",
        "-9223372036854775809",
        "2147483648,0",
        "0,-2147483649",
        "1,2,3",
        "1,",
        ",1",
        "1, 2",
        "0x2a",
        "my_lock",
        "4.2",
        "",
    ] {
        let expected = if bad.is_empty() { "empty" } else { bad };
        for verb in ["list", "release", "key"] {
            assert_usage_errors(&[(&[verb, "--raw", "--", bad], expected)]);
        }
        assert_usage_errors(&[(&["run", "--raw", "--", bad, "true"], expected)]);
    }
    assert_usage_errors(&[(
        &["run", "--raw", "-N", "ns", "42", "true"],
        "cannot be used with",
    )]);
}

#[test]
fn a_bad_duration_is_a_usage_error() {
    for bad in [
        "",
        "x",
        "1x",
        "-1",
        "5 parsecs",
        "1e3",
        ".",
        "inf",
        "NaN",
        "1:30",
    ] {
        let timeout = format!("--timeout={bad}");
        let grace = format!("--grace={bad}");
        assert_usage_errors(&[
            (&["run", &timeout, "x", "true"], "--timeout"),
            (&["run", "-w", bad, "x", "true"], ""),
            (&["run", &grace, "x", "true"], "--grace"),
            (&["try", &grace, "x", "true"], "--grace"),
            (&["release", &timeout, "-f", "x"], "--timeout"),
        ]);
    }
}

#[test]
fn a_conflict_exit_code_that_is_no_exit_status_is_a_usage_error() {
    for bad in ["256", "-1", "x", "", "1.5"] {
        let option = format!("--conflict-exit-code={bad}");
        assert_usage_errors(&[
            (&["run", "-E", bad, "x", "true"], ""),
            (&["try", &option, "x", "true"], "--conflict-exit-code"),
        ]);
    }
}

#[test]
fn options_that_contradict_one_another_are_usage_errors() {
    assert_usage_errors(&[
        (&["run", "-c", "true", "x", "true"], "cannot be used with"),
        (&["try", "x", "-c", "true", "--", "true"], ""),
        (&["try", "-w", "5", "x", "true"], "-w"),
        (&["try", "--timeout", "5", "x", "true"], "--timeout"),
        (
            &["run", "-n", "-w", "5", "x", "true"],
            "cannot be used with",
        ),
        (
            &["list", "--json", "--format", "csv"],
            "cannot be used with",
        ),
        (&["list", "--format", "xml"], "xml"),
        (&["list", "--watch", "-q"], "cannot be used with"),
        (&["list", "--watch=0"], "--watch"),
        (&["list", "--watch=soon"], "--watch"),
        (&["release", "-f", "--pid", "x", "y"], "--pid"),
    ]);
}

#[test]
fn a_name_that_is_not_utf_8_is_a_usage_error() {
    let name = OsStr::from_bytes(b"caf\xe9");
    for words in [
        [OsStr::new("run"), name, OsStr::new("true")].as_slice(),
        &[OsStr::new("try"), name, OsStr::new("true")],
        &[OsStr::new("list"), name],
        &[OsStr::new("release"), OsStr::new("-f"), name],
        &[OsStr::new("key"), name],
        &[OsStr::new("list"), OsStr::new("-N"), name],
    ] {
        assert_refused(|pglock| pglock.args(words), "UTF-8");
    }
    let variable = |pglock: Pglock| pglock.env("PGLOCK_NAMESPACE", name).args(["list", "x"]);
    assert_refused(variable, "PGLOCK_NAMESPACE");
}

#[test]
fn a_message_stays_one_harmless_line_whatever_was_typed() {
    for typed in ["--a\nb", "--\x1b[2Jx", "--x\u{202e}y", "a\n\nb"] {
        let finished = assert_refused(|pglock| pglock.arg(typed), "");
        finished.assert(
            !finished.stderr.contains(['\x1b', '\u{202e}']),
            "no control character",
        );
    }
}

#[test]
fn help_and_version_go_to_standard_output() {
    for option in ["--help", "-?"] {
        for verb in [
            &[][..],
            &["run"],
            &["try"],
            &["list"],
            &["release"],
            &["key"],
        ] {
            let help = Pglock::without_server().args(verb).arg(option).run();
            help.assert_code(0)
                .assert_stderr("")
                .assert_stdout_has("Usage: pglock")
                .assert_stdout_has(verb.first().unwrap_or(&"release"));
        }
    }
    let version = Pglock::without_server().arg("--version").run();
    version
        .assert_code(0)
        .assert_stderr("")
        .assert_stdout(&format!("pglock {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn help_is_also_a_subcommand() {
    for verb in ["", "run", "try", "list", "release", "key", "check"] {
        let asked = |words: &[&str]| {
            let words = words.iter().filter(|word| !word.is_empty());
            let help = Pglock::without_server().args(words).run();
            help.assert_code(0).assert_stderr("");
            help.stdout
        };
        assert_eq!(asked(&["help", verb]), asked(&[verb, "--help"]));
    }
}

#[test]
fn a_usage_error_names_the_help_of_what_was_meant() {
    assert_usage_errors(&[
        (&[], "; see pglock --help"),
        (&["bogus"], "; see pglock --help"),
        (&["list", "--bogus"], "; see pglock list --help"),
        (
            &["-d", "run", "list", "--bogus"],
            "; see pglock list --help",
        ),
        (&["list", "--format", "xml"], "; see pglock list --help"),
        (&["run", "x"], "; see pglock run --help"),
        (&["run", "-w"], "; see pglock run --help"),
        (
            &["try", "-E", "999", "x", "true"],
            "; see pglock try --help",
        ),
        (&["key"], "; see pglock key --help"),
        (
            &["release", "--pid", "x", "y"],
            "; see pglock release --help",
        ),
    ]);
}

#[test]
fn h_is_the_host_as_in_psql_and_never_help() {
    let host = |words: &[&str]| Pglock::without_server().args(words).run();
    host(&["key", "-h", "anywhere", "my_lock"])
        .assert_code(0)
        .assert_stdout("9207781743510115226\n")
        .assert_stderr("");
    host(&["-h", "/nonexistent", "list"])
        .assert_code(121)
        .assert_stdout("")
        .assert_one_message()
        .assert_stderr_has("/nonexistent");
    assert_usage_errors(&[(&["list", "-h"], "--host"), (&["-h"], "--host")]);
}

#[test]
fn the_help_of_every_verb_names_its_options() {
    let connection = ["-d, --dbname", "-h, --host", "-p, --port", "-U, --username"];
    let naming = ["-N, --namespace", "--raw"];
    let job = [
        "-E, --conflict-exit-code",
        "-s, --shared",
        "-c, --command",
        "-q, --quiet",
        "-v, --verbose",
        "--grace",
    ];
    let verbs: [(&str, Vec<&str>); 5] = [
        (
            "run",
            [&["-w, --timeout", "-n, --nonblock"], &job[..]].concat(),
        ),
        ("try", job.to_vec()),
        (
            "list",
            vec![
                "--format",
                "--json",
                "--wide",
                "--tree",
                "--watch",
                "-a, --all-databases",
                "-q, --quiet",
            ],
        ),
        (
            "release",
            vec!["--force", "--yes", "--dry-run", "--pid", "--timeout"],
        ),
        ("key", vec![]),
    ];
    for (verb, options) in verbs {
        for help in ["-?", "--help"] {
            let finished = Pglock::without_server().args([verb, help]).run();
            finished.assert_code(0).assert_stderr("");
            for option in connection.iter().chain(&naming).chain(&options) {
                finished.assert_stdout_has(option);
            }
            finished.assert_stdout_has("-?, --help");
        }
    }
}

#[track_caller]
fn assert_usage_errors(cases: &[(&[&str], &str)]) {
    for (words, expected) in cases {
        assert_refused(|pglock| pglock.args(*words), expected);
    }
}

/// Asserts one message with this text, nothing on standard output, and that nobody connected.
#[track_caller]
fn assert_refused(typed: impl FnOnce(Pglock) -> Pglock, text: &str) -> Finished {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    listener.set_nonblocking(true).unwrap();
    let port: OsString = listener.local_addr().unwrap().port().to_string().into();
    let pglock = Pglock::without_server()
        .env("PGHOST", "127.0.0.1")
        .env("PGPORT", port)
        .env("PGUSER", "nobody")
        .env("PGCONNECT_TIMEOUT", "2");

    let finished = typed(pglock).run();
    finished
        .assert_code(125)
        .assert_stdout("")
        .assert_one_message()
        .assert_stderr_has(text);
    let visitor = listener.accept().map_err(|error| error.kind());
    finished.assert(
        visitor.is_err_and(|kind| kind == ErrorKind::WouldBlock),
        "no connection",
    );
    finished
}
