//! The manual pages and completions that packagers install are what `cli.rs` says.
//!
//! `PGLOCK_WRITE_ASSETS=1 cargo test assets` writes them anew.

use std::fs;
use std::path::{Path, PathBuf};

use clap::{Command, CommandFactory as _};
use clap_complete::{Shell, generate};
use clap_mangen::Man;

#[allow(
    dead_code,
    missing_docs,
    reason = "only the command is built here, nothing is parsed"
)]
#[path = "../src/cli.rs"]
mod cli;

#[test]
fn completions_are_what_the_command_line_is() {
    for (shell, file) in [
        (Shell::Bash, "pglock.bash"),
        (Shell::Zsh, "_pglock"),
        (Shell::Fish, "pglock.fish"),
    ] {
        let mut script = Vec::new();
        generate(shell, &mut command(), "pglock", &mut script);
        assert_is(&["completions", file], &script);
    }
}

#[test]
fn manual_pages_are_what_the_command_line_is() {
    let command = command();
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

fn main_page(command: &Command) -> Vec<u8> {
    let man = Man::new(command.clone()).section("1");
    let mut page = Vec::new();
    man.render_title(&mut page).unwrap();
    man.render_name_section(&mut page).unwrap();
    man.render_synopsis_section(&mut page).unwrap();
    man.render_description_section(&mut page).unwrap();
    man.render_subcommands_section(&mut page).unwrap();
    man.render_options_section(&mut page).unwrap();
    page.extend(definitions("EXIT STATUS", &cli::EXIT_STATUS));
    page.extend(definitions("ENVIRONMENT", &cli::ENVIRONMENT));
    page.extend(fs::read(repository().join("man/sections.roff")).unwrap());
    page
}

fn verb_page(verb: &Command, name: &str) -> Vec<u8> {
    // Synopsis and title name the page, as `man pglock-run` is asked for.
    let man = Man::new(verb.clone().display_name(name))
        .section("1")
        .title(name);
    let mut page = Vec::new();
    man.render_title(&mut page).unwrap();
    man.render_name_section(&mut page).unwrap();
    man.render_synopsis_section(&mut page).unwrap();
    man.render_description_section(&mut page).unwrap();
    man.render_options_section(&mut page).unwrap();
    page.extend_from_slice(
        b".SH \"SEE ALSO\"\npglock(1) for exit status, environment, guarantees and examples\n",
    );
    page
}

/// A section of terms and what they mean.
fn definitions(title: &str, items: &[(&str, &str)]) -> Vec<u8> {
    let escaped = |text: &str| text.replace('\\', "\\e").replace('-', "\\-");
    let items = items
        .iter()
        .map(|(term, meaning)| format!(".TP\n\\fB{}\\fR\n{}\n", escaped(term), escaped(meaning)));
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
