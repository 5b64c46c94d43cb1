//! The manual pages and completions that packagers install are what `src/cli` says.
//!
//! `PGLOCK_WRITE_ASSETS=1 cargo test assets` writes them anew.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use clap::{Command, CommandFactory as _};
use clap_complete::{Shell, generate};
use clap_mangen::Man;

#[allow(
    dead_code,
    missing_docs,
    unused_imports,
    reason = "only the command is built here, nothing is parsed"
)]
#[path = "../src/cli/mod.rs"]
mod cli;

#[allow(dead_code, missing_docs, reason = "only the words are shown here")]
#[path = "../src/catalogue/mod.rs"]
pub mod catalogue;

#[test]
fn completions_are_what_the_command_line_is() {
    for (shell, file) in [
        (Shell::Bash, "pglock.bash"),
        (Shell::Zsh, "_pglock"),
        (Shell::Fish, "pglock.fish"),
    ] {
        let mut script = Vec::new();
        generate(shell, &mut command(), "pglock", &mut script);
        match shell {
            Shell::Bash => script.extend(within_command(&command()).into_bytes()),
            Shell::Fish => script = without_question_mark(script),
            _ => {}
        }
        assert_is(&["completions", file], &script);
    }
}

/// fish takes `?` for a pattern, and its argparse knows no option of that name: of `-?, --help` the long one is offered.
fn without_question_mark(script: Vec<u8>) -> Vec<u8> {
    let script = String::from_utf8(script).unwrap();
    let script = script.replace(" ?/help", " help").replace(" -s ? ", " ");
    script.into_bytes()
}

#[test]
fn manual_pages_are_what_the_command_line_is() {
    // There is no page for the subcommand that shows help.
    let mut command = cli::Cli::command().disable_help_subcommand(true);
    command.build();
    assert_is(&["man", "pglock.1"], &main_page(&command));
    for verb in command.get_subcommands() {
        let name = format!("pglock-{}", verb.get_name());
        assert_is(&["man", &format!("{name}.1")], &verb_page(verb, &name));
    }
}

fn command() -> Command {
    let mut command = cli::Cli::command();
    command.build();
    command
}

#[test]
fn a_synopsis_is_the_usage_that_help_shows() {
    let mut command = command();
    for (verb, usage) in [
        ("list", "\\fBpglock list\\fR [OPTIONS] [NAME]...\n"),
        (
            "key",
            "\\fBpglock key\\fR [OPTIONS] NAME...\n.br\n\
             \\fBpglock key\\fR [OPTIONS] \\-\\-all NAME\n.br\n\
             \\fBpglock key\\fR [OPTIONS] \\-\\-check FILE\n",
        ),
        ("check", "\\fBpglock check\\fR [OPTIONS]\n"),
        (
            "try",
            "\\fBpglock try\\fR [OPTIONS] NAME [\\-\\-] COMMAND [ARG...]\n.br\n\
             \\fBpglock try\\fR [OPTIONS] NAME \\-c STRING\n",
        ),
    ] {
        let verb = command.find_subcommand_mut(verb).unwrap();
        let synopsis = String::from_utf8(synopsis(verb)).unwrap();
        assert_eq!(synopsis, format!(".SH SYNOPSIS\n{usage}"));
    }
}

fn main_page(command: &Command) -> Vec<u8> {
    let man = Man::new(command.clone()).section("1");
    let mut page = Vec::new();
    man.render_title(&mut page).unwrap();
    man.render_name_section(&mut page).unwrap();
    page.extend(synopsis(command));
    man.render_description_section(&mut page).unwrap();
    man.render_subcommands_section(&mut page).unwrap();
    man.render_options_section(&mut page).unwrap();
    page.extend(definitions("EXIT STATUS", &cli::sections::EXIT_STATUS));
    page.extend(definitions("ENVIRONMENT", &cli::sections::ENVIRONMENT));
    page.extend(definitions("HASH SCHEMES", &schemes()));
    page.extend(definitions("PROGRAMS", &programs()));
    page.extend(fs::read(repository().join("man/sections.roff")).unwrap());
    page
}

fn verb_page(verb: &Command, name: &str) -> Vec<u8> {
    // Synopsis and title name the page, as `man pglock-run` is asked for.
    let man = Man::new(verb.clone().display_name(name))
        .section("1")
        .title(name)
        .source(concat!("pglock ", env!("CARGO_PKG_VERSION")));
    let mut page = Vec::new();
    man.render_title(&mut page).unwrap();
    man.render_name_section(&mut page).unwrap();
    page.extend(synopsis(verb));
    man.render_description_section(&mut page).unwrap();
    man.render_options_section(&mut page).unwrap();
    page.extend_from_slice(
        b".SH \"SEE ALSO\"\npglock(1) for exit status, environment, guarantees and examples\n",
    );
    page
}

fn schemes() -> Vec<(&'static str, &'static str)> {
    let schemes = catalogue::SCHEMES.iter();
    schemes.map(|scheme| (scheme.word, scheme.gives)).collect()
}

/// What NAME is to each program.
fn programs() -> Vec<(&'static str, String)> {
    let programs = catalogue::PROGRAMS.iter();
    let named = programs.filter_map(|program| Some((program.word?, program)));
    let described = named.map(|(word, program)| {
        (
            word,
            format!("{}; NAME is {}", program.title, program.usage()),
        )
    });
    described.collect()
}

/// The usage as --help has it, with the words that are typed as they are in bold.
fn synopsis(command: &Command) -> Vec<u8> {
    let usage = command.clone().render_usage().to_string();
    let lines = usage.trim_start_matches("Usage: ").lines().map(|line| {
        let line = line.trim();
        let is_typed = |word: &&str| word.bytes().all(|byte| byte.is_ascii_lowercase());
        let typed: Vec<&str> = line.split(' ').take_while(is_typed).collect();
        let typed = typed.join(" ").len();
        let escaped = |text: &str| text.replace('-', "\\-");
        format!(
            "\\fB{}\\fR{}\n",
            escaped(&line[..typed]),
            escaped(&line[typed..])
        )
    });
    let lines: Vec<String> = lines.collect();
    format!(".SH SYNOPSIS\n{}", lines.join(".br\n")).into_bytes()
}

/// What completes COMMAND in bash, with the options that a value follows filled in.
fn within_command(command: &Command) -> String {
    let takes_value = |option: &&clap::Arg| {
        // With a shell's command line there is no COMMAND.
        let leaves_a_command = option.get_id() != "shell";
        let takes = option
            .get_num_args()
            .is_some_and(|count| count.takes_values());
        leaves_a_command && takes && !option.is_positional() && !option.is_require_equals_set()
    };
    let verbs = ["run", "try"].map(|verb| command.find_subcommand(verb).unwrap());
    let options = verbs
        .iter()
        .flat_map(|verb| verb.get_arguments().filter(takes_value));
    let names: BTreeSet<String> = options
        .flat_map(|option| {
            let short = option.get_short().map(|short| format!("-{short}"));
            let long = option.get_long().map(|long| format!("--{long}"));
            short.into_iter().chain(long)
        })
        .collect();
    let names: Vec<String> = names.into_iter().collect();
    let fragment = fs::read_to_string(repository().join("completions/command.bash")).unwrap();
    fragment.replace("OPTIONS_WITH_A_VALUE", &names.join(" | 1,"))
}

/// A section of terms and what they mean.
fn definitions(title: &str, items: &[(&str, impl AsRef<str>)]) -> Vec<u8> {
    let escaped = |text: &str| text.replace('\\', "\\e").replace('-', "\\-");
    let items = items.iter().map(|(term, meaning)| {
        let mut meaning = escaped(meaning.as_ref());
        // It would be a command (groff(7)).
        if meaning.starts_with('.') {
            meaning.insert_str(0, "\\&");
        }
        format!(".TP\n\\fB{}\\fR\n{meaning}\n", escaped(term))
    });
    format!(".SH \"{title}\"\n{}", items.collect::<String>()).into_bytes()
}

/// Asserts that a file of the repository has this content; `PGLOCK_WRITE_ASSETS=1` writes it.
#[track_caller]
pub fn assert_is(path: &[&str], wanted: &[u8]) {
    let path = path.iter().fold(repository(), |path, part| path.join(part));
    if std::env::var_os("PGLOCK_WRITE_ASSETS").is_some() {
        fs::write(&path, wanted).unwrap();
    }
    let found = fs::read(&path).unwrap_or_default();
    assert!(
        found == wanted,
        "{} is not what it should be; PGLOCK_WRITE_ASSETS=1 cargo test writes it anew, and git diff shows how:\n{}",
        path.display(),
        String::from_utf8_lossy(wanted)
    );
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).to_owned()
}
