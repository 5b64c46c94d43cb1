//! The command finds what it would find without pglock: compared with the same command started bare.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::Command;

use postgres::Client;

use crate::support::{Finished, Pglock, Running, Server, Watchdog, holders};

/// Words that a shell, a parser of options or a decoder of text would change.
const HARD_WORDS: [&[u8]; 16] = [
    b"",
    b"two\nlines\n",
    b" blanks  inside ",
    b"\xff\xfe invalid UTF-8 \x80",
    b"-c",
    b"--",
    b"--help",
    b"-?",
    b"--version",
    b"-w",
    b"$HOME",
    b"*",
    b"a;b|c&d>e<f",
    b"`id` $(id)",
    b"'\"\\",
    b"",
];

/// What a process starts with, as the end of a shell script that becomes that process.
const STARTING_STATES: [(&str, &str); 13] = [
    ("nothing unusual", r#"exec "$@""#),
    ("HUP ignored", r#"exec env --ignore-signal=HUP "$@""#),
    ("PIPE ignored", r#"exec env --ignore-signal=PIPE "$@""#),
    ("CHLD ignored", r#"exec env --ignore-signal=CHLD "$@""#),
    (
        "INT, QUIT, TERM, USR1 ignored",
        r#"exec env --ignore-signal=INT,QUIT,TERM,USR1 "$@""#,
    ),
    ("USR1 blocked", r#"exec env --block-signal=USR1 "$@""#),
    (
        "TERM, CHLD, PIPE blocked",
        r#"exec env --block-signal=TERM,CHLD,PIPE "$@""#,
    ),
    ("stdin closed", r#"exec "$@" <&-"#),
    ("stdout closed", r#"exec "$@" >&-"#),
    ("stdout and stderr closed", r#"exec "$@" >&- 2>&-"#),
    ("all three closed", r#"exec "$@" <&- >&- 2>&-"#),
    ("descriptor 7 open", r#"exec "$@" 7</etc/passwd"#),
    ("umask 027", r#"umask 027; exec "$@""#),
];

#[test]
fn argv_arrives_byte_for_byte() {
    let words = HARD_WORDS.map(OsStr::from_bytes);
    let expected: Vec<u8> = HARD_WORDS
        .iter()
        .flat_map(|word| [*word, b"\0"].concat())
        .collect();
    for separator in [&["--"][..], &[]] {
        let finished = pglock()
            .args(["run", "inherit-argv"])
            .args(separator)
            .args(["printf", r"%s\0"])
            .args(words)
            .run();
        finished
            .assert_code(0)
            .assert_stderr("")
            .assert(finished.stdout_bytes == expected, "the same words");
    }
}

#[test]
fn a_first_word_after_the_separator_is_the_command_whatever_it_looks_like() {
    for word in ["-c", "--help", "-q"] {
        let finished = pglock().args(["run", "inherit-dash", "--", word]).run();
        finished
            .assert_code(127)
            .assert_stdout("")
            .assert_stderr(&format!("pglock: {word}: command not found\n"));
    }
}

#[test]
fn the_command_string_is_one_word_for_bin_sh() {
    let script = b"printf '%s|' \"$0\" \"$#\" '\xff'; echo $((1 + 1))";
    let finished = pglock()
        .env("SHELL", "/bin/false")
        .args(["run", "inherit-shell", "-c"])
        .arg(OsStr::from_bytes(script))
        .run();
    finished.assert_code(0).assert_stderr("").assert(
        finished.stdout_bytes == b"/bin/sh|0|\xff|2\n",
        "what /bin/sh -c prints",
    );
}

#[test]
fn stdin_and_stdout_carry_ten_megabytes_unchanged() {
    let bytes: Vec<u8> = std::iter::repeat_with(|| fastrand::u8(..))
        .take(10_000_000)
        .collect();
    let finished = pglock()
        .args(["run", "inherit-stdin", "cat"])
        .stdin(bytes.clone())
        .run();
    // Not printed when it fails: ten megabytes help nobody.
    assert!(finished.stdout_bytes == bytes, "the streams differ");
    assert_eq!((finished.code, &*finished.stderr), (Some(0), ""));
}

#[test]
fn stderr_is_the_commands_own() {
    pglock()
        .args(["run", "inherit-stderr", "-c", "echo out; echo err >&2"])
        .run()
        .assert_code(0)
        .assert_stdout("out\n")
        .assert_stderr("err\n");
}

#[test]
fn the_environment_is_pglocks_own_and_the_lock() {
    let added = environment_of_command(
        &["run", "inherit-env"],
        &[
            ("PGPASSWORD", "se=cret"),
            ("PGAPPNAME", "mine"),
            ("PGOPTIONS", "-c work_mem=1MB"),
            ("PGCONNECT_TIMEOUT", "7"),
            ("PGLOCK_KEY", "of the pglock around this one"),
            ("EMPTY", ""),
            ("LINES_2", "two\nlines"),
        ],
        &["PGLOCK_KEY"],
    );
    let backend = added
        .iter()
        .find(|line| line.starts_with("PGLOCK_BACKEND_PID="));
    let key = key_of(&mut Server::shared().client(), "inherit-env");
    let backend = backend.unwrap();
    let pid = backend.strip_prefix("PGLOCK_BACKEND_PID=").unwrap();
    let expected = [
        backend.clone(),
        format!("PGLOCK_HELD={key}@{pid}"),
        format!("PGLOCK_KEY={key}"),
        "PGLOCK_NAME=inherit-env".to_owned(),
    ];
    assert_eq!(added, expected.into());
}

#[test]
fn the_environment_tells_the_namespace() {
    let names = |added: &BTreeSet<String>| -> Vec<String> {
        added
            .iter()
            .filter(|line| {
                !line.starts_with("PGLOCK_BACKEND_PID=") && !line.starts_with("PGLOCK_HELD=")
            })
            .cloned()
            .collect()
    };
    let expected = names(&environment_of_command(
        &["run", "-N", "billing", "my_lock"],
        &[],
        &[],
    ));
    let keys = pglock().args(["key", "-N", "billing", "my_lock"]).run();
    assert_eq!(
        expected,
        [
            format!("PGLOCK_KEY={}", keys.stdout.trim_end()),
            "PGLOCK_NAME=my_lock".to_owned(),
            "PGLOCK_NAMESPACE=billing".to_owned(),
        ]
    );
    // From the environment it is there already.
    let added = environment_of_command(
        &["run", "my_lock"],
        &[("PGLOCK_NAMESPACE", "billing")],
        &["PGLOCK_NAMESPACE"],
    );
    assert_eq!(names(&added), expected);
}

#[test]
fn the_environment_tells_the_backend_that_holds_the_lock() {
    let job = ["sh", "-c", "echo $PGLOCK_BACKEND_PID; exec cat >/dev/null"];
    let mut running = pglock().args(["run", "inherit-backend"]).args(job).spawn();
    let held_by = holders_when_told(&mut running, "inherit-backend");
    running
        .let_go()
        .assert_code(0)
        .assert_stdout(&format!("{}\n", held_by[0]))
        .assert_stderr("");
}

#[test]
fn environment_variables_that_are_no_text_pass() {
    let finished = pglock()
        .env("ODD", OsStr::from_bytes(b"\xff\xfe"))
        .args(["run", "inherit-odd", "-c", "printf %s \"$ODD\""])
        .run();
    finished
        .assert_code(0)
        .assert_stderr("")
        .assert(finished.stdout_bytes == b"\xff\xfe", "the same bytes");
}

#[test]
fn the_working_directory_is_kept() {
    let scratch = Watchdog::start();
    pglock()
        .current_dir(scratch.directory())
        .args(["run", "inherit-cwd", "readlink", "/proc/self/cwd"])
        .run()
        .assert_code(0)
        .assert_stdout(&format!("{}\n", scratch.directory().display()))
        .assert_stderr("");
}

#[test]
fn signals_mask_and_umask_are_those_of_the_bare_command_in_every_starting_state() {
    compare_with_bare(
        "inherit-state",
        |file| vec!["cp".into(), "/proc/self/status".into(), file.into()],
        |status| {
            let kept = ["Umask", "Sig", "Cap", "NoNewPrivs", "Uid", "Gid", "Groups"];
            // What is pending, and what `cp` itself catches, is no inheritance.
            let own = ["SigQ", "SigPnd", "SigCgt"];
            let starts = |line: &str, with: &[&str]| with.iter().any(|name| line.starts_with(name));
            status
                .lines()
                .filter(|line| starts(line, &kept) && !starts(line, &own))
                .map(str::to_owned)
                .collect()
        },
    );
}

#[test]
fn open_descriptors_are_those_of_the_bare_command_in_every_starting_state() {
    compare_with_bare(
        "inherit-descriptors",
        |file| {
            let words =
                ["find", "/proc/self/fd", "-ignore_readdir_race", "-fprintf"].map(OsString::from);
            let words = words.into_iter().chain([file.into(), r"%f %l\n".into()]);
            words.collect()
        },
        // The numbers of pipes and of the process itself differ each time; those of the descriptors count.
        |descriptors| {
            descriptors
                .lines()
                .map(|line| {
                    let (number, target) = line.split_once(' ').unwrap_or((line, ""));
                    let target = target.replace(|c: char| c.is_ascii_digit(), "");
                    format!("{number} {target}")
                })
                .collect()
        },
    );
}

#[test]
fn a_command_whose_reader_has_gone_dies_of_sigpipe() {
    let pipeline = r#"{ "$@"; echo "status $?" >&2; } | head -n 1"#;
    pglock()
        .through(&["sh", "-c", pipeline, "sh"])
        .args(["run", "inherit-pipe", "yes"])
        .run()
        .assert_code(0)
        .assert_stdout("y\n")
        .assert_stderr("status 141\n");
}

/// Compares what a probe writes to its file when run bare and under pglock, in every starting state.
fn compare_with_bare(
    lock: &str,
    probe: impl Fn(&Path) -> Vec<OsString>,
    essence: impl Fn(&str) -> Vec<String>,
) {
    let scratch = Watchdog::start();
    let file = scratch.directory().join("probed");
    let words = probe(&file);
    let what_it_finds = |run: &dyn Fn() -> Finished| {
        run().assert_code(0).assert_silent();
        let text = fs::read_to_string(&file).unwrap();
        fs::remove_file(&file).unwrap();
        essence(&text)
    };
    for (state, script) in STARTING_STATES {
        let launcher = ["sh", "-c", script, "sh"];
        let bare = what_it_finds(&|| bare(&launcher, &words));
        let under_pglock = what_it_finds(&|| {
            pglock()
                .through(&launcher)
                .args(["run", lock, "--"])
                .args(&words)
                .run()
        });
        assert!(bare.len() > 3, "{state}: {bare:?}");
        assert_eq!(under_pglock, bare, "{state}");
    }
}

/// Runs the words as pglock would be run, in the same environment.
fn bare(launcher: &[&str], words: &[OsString]) -> Finished {
    let mut pglock = pglock();
    let mut command = Command::new(launcher[0]);
    let environment = pglock.command().get_envs();
    command
        .args(&launcher[1..])
        .args(words)
        .env_clear()
        .envs(environment.filter_map(|(name, value)| Some((name, value?))));
    Running::start(&mut command).let_go()
}

/// The variables of a command that were not pglock's own, after a check that all of those but the replaced are there.
fn environment_of_command(
    words: &[&str],
    variables: &[(&str, &str)],
    replaced: &[&str],
) -> BTreeSet<String> {
    let mut pglock = pglock().envs(variables.iter().copied()).args(words);
    let own: BTreeSet<String> = pglock
        .command()
        .get_envs()
        .filter(|(name, _)| replaced.iter().all(|each| name != each))
        .filter_map(|(name, value)| Some((name.to_str()?, value?.to_str()?)))
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    let finished = pglock.args(["env", "-0"]).run();
    finished.assert_code(0).assert_stderr("");
    let lines: Vec<&str> = finished.stdout.split_terminator('\0').collect();
    let found: BTreeSet<String> = lines.iter().map(|&line| line.to_owned()).collect();
    assert_eq!(found.len(), lines.len(), "each once: {lines:?}");
    assert!(found.is_superset(&own), "{own:?}\n{found:?}");
    found.difference(&own).cloned().collect()
}

fn holders_when_told(running: &mut Running, name: &str) -> Vec<i32> {
    running.wait_output("the backend's number", |running| {
        running.stdout_so_far().ends_with('\n')
    });
    holders(&mut Server::shared().client(), name)
}

fn key_of(client: &mut Client, name: &str) -> i64 {
    let key = "SELECT ('x'||left(encode(sha256(convert_to($1,'UTF8')),'hex'),16))::bit(64)::bigint";
    client.query_one(key, &[&name]).unwrap().get(0)
}

fn pglock() -> Pglock {
    Pglock::new(Server::shared())
}
