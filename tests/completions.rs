//! What bash and fish offer at the cursor.

use std::path::Path;
use std::process::Command;

use crate::support::Running;

/// Prints what is offered for the last of the words that follow, one a line; OFFSET stands for bash-completion's own
/// completion of a command that begins at a word.
const COMPLETE: &str = r#"
    source "$0"
    [ -z "$OFFSET" ] || _command_offset() { COMPREPLY=("command at $1"); }
    COMP_WORDS=("$@")
    COMP_CWORD=$(($# - 1))
    $(complete -p pglock | sed 's/.*-F \([^ ]*\).*/\1/') pglock "${!#}" "${COMP_WORDS[COMP_CWORD - 1]}"
    printf '%s\n' "${COMPREPLY[@]}""#;

#[test]
fn within_the_command_of_run_and_try_the_command_is_completed() {
    for (line, at) in [
        ("pglock run x make --", 3),
        ("pglock run x make -j4 --", 3),
        ("pglock run x -- make --", 4),
        ("pglock run x -- ", 4),
        ("pglock run x ma", 3),
        ("pglock try x make all", 3),
        ("pglock run -w 5m -q x make --", 6),
        ("pglock run --timeout = 5m x make --", 6),
        ("pglock run -w5m x make --", 4),
        ("pglock -d app run x make --", 5),
        ("pglock run -- x make --", 4),
        ("pglock run x run list --", 3),
    ] {
        assert_eq!(offered(line, true), [format!("command at {at}")], "{line}");
    }
    // Without bash-completion: programs, then files.
    assert!(offered("pglock run x seq", false).contains(&"seq".to_owned()));
    assert_eq!(offered("pglock run x seq --", false), [""; 1]);
}

#[test]
fn elsewhere_the_options_of_the_verb_are_offered() {
    for (line, option) in [
        ("pglock run --", "--max-runtime"),
        ("pglock run x --", "--max-runtime"),
        ("pglock run x -w 5m --", "--max-runtime"),
        ("pglock run x -c true --", "--max-runtime"),
        ("pglock list x y --", "--watch"),
        ("pglock release x y --", "--force"),
        ("pglock run x --on-lost ", "warn"),
        ("pglock list --format ", "prometheus"),
        ("pglock he", "help"),
        ("pglock help ru", "run"),
    ] {
        let offered = offered(line, true);
        assert!(
            offered.iter().any(|word| word == option),
            "{line}: {offered:?}"
        );
    }
}

#[test]
fn fish_offers_verbs_and_options() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("completions/pglock.fish");
    for (line, word) in [
        ("pglock ", "run"),
        ("pglock rel", "release"),
        ("pglock --h", "--help"),
        ("pglock run --max-r", "--max-runtime"),
        ("pglock list --format p", "prometheus"),
    ] {
        let mut fish = Command::new("fish");
        let complete = "source $argv[1]; complete --do-complete $argv[2]";
        fish.args(["--no-config", "-c", complete])
            .arg(&script)
            .arg(line);
        let finished = Running::start(&mut fish).wait();
        finished.assert_code(0).assert_stderr("");
        // A word, a tab, and what it means.
        let mut offered = finished
            .stdout
            .lines()
            .map(|offer| offer.split('\t').next());
        finished.assert(offered.any(|offer| offer == Some(word)), word);
    }
}

#[track_caller]
fn offered(line: &str, with_bash_completion: bool) -> Vec<String> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("completions/pglock.bash");
    let mut bash = Command::new("bash");
    bash.args(["--norc", "-c", COMPLETE])
        .arg(script)
        .args(line.split(' '))
        .env("OFFSET", if with_bash_completion { "1" } else { "" });
    let finished = Running::start(&mut bash).wait();
    finished.assert_code(0).assert_stderr("");
    finished.stdout.lines().map(str::to_owned).collect()
}
