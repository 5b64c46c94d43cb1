//! What is wrong with arguments, on one line.

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{ArgMatches, CommandFactory as _};

use crate::cli::Cli;
use crate::command_line;

/// What is wrong, and which help tells more: that of the verb, as far as the arguments can be understood.
pub fn mistake(error: &clap::Error) -> String {
    let understood = Cli::command().ignore_errors(true).try_get_matches().ok();
    let verb = understood.as_ref().and_then(ArgMatches::subcommand);
    let help = verb.map_or("pglock".to_owned(), |(verb, _)| format!("pglock {verb}"));
    let wrong = match no_command(error, verb.map(|(_, rest)| rest)) {
        Some(wrong) => without_secrets(wrong),
        None => on_one_line(&without_secrets(error.to_string())),
    };
    format!("{wrong}; see {help} --help")
}

/// An argument in the wrong place may be a password, or a URI with one.
fn without_secrets(message: String) -> String {
    let typed = std::env::args_os().map(|word| word.to_string_lossy().into_owned());
    let typed: Vec<String> = typed.collect();
    let words = typed.iter().enumerate();
    words.fold(message, |message, (at, word)| {
        let before = at.checked_sub(1).map(|before| typed[before].as_str());
        let masked = command_line::mask_after(before, word);
        if masked == *word {
            return message;
        }
        let message = message.replace(&format!("'{word}'"), &format!("'{masked}'"));
        // Of `--option=VALUE` clap tells the value alone.
        match word.split_once('=') {
            Some((_, value)) => message.replace(&format!("'{value}'"), command_line::MASK),
            None => message,
        }
    })
}

/// Where nothing but COMMAND is missing, what was taken for NAME: it may be the command.
fn no_command(error: &clap::Error, verb: Option<&ArgMatches>) -> Option<String> {
    let missing = match error.get(ContextKind::InvalidArg)? {
        ContextValue::Strings(missing) if error.kind() == ErrorKind::MissingRequiredArgument => {
            missing
        }
        _ => return None,
    };
    let [missing] = &missing[..] else {
        return None;
    };
    let name = verb?.try_get_one::<String>("name").ok()??;
    missing
        .contains("COMMAND")
        .then(|| format!("no COMMAND to run under the lock '{name}'"))
}

/// clap's message on one line, without its label and usage, and of its tips only what was perhaps meant.
fn on_one_line(rendered: &str) -> String {
    let paragraph = rendered.split("\n\n").next().unwrap_or_default();
    let paragraph = paragraph.strip_prefix("error: ").unwrap_or(paragraph);
    let words: Vec<&str> = paragraph.split_whitespace().collect();
    let tips = rendered
        .lines()
        .filter_map(|line| line.trim().strip_prefix("tip: "));
    let meant = tips
        .filter(|tip| tip.contains("similar"))
        .map(|tip| format!("; {tip}"));
    format!("{}{}", words.join(" "), meant.collect::<String>())
}
