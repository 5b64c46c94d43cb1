//! pglock: run a command while holding a PostgreSQL advisory lock.

mod acquire;
mod attendant;
mod canary;
mod catalogue;
mod child;
mod claim;
mod cli;
mod command_line;
mod commands;
mod connection;
mod duration;
mod environment;
mod exit;
mod family;
mod guardian;
mod holding;
mod identity;
mod inventory;
mod key;
mod lease;
mod mistake;
mod name_services;
mod naming;
mod output;
mod report;
mod requester;
mod session;
mod signals;
mod supervise;
mod terminal;
mod text;

use std::process::ExitCode;

use clap::Parser as _;
use clap::error::ErrorKind;

use crate::cli::Cli;
use crate::exit::{Fault, Outcome};

fn main() -> ExitCode {
    name_services::keep_to_built_in();
    match Cli::try_parse() {
        Ok(cli) => run(cli),
        Err(error) => help_or_usage_error(&error),
    }
}

fn run(cli: Cli) -> ExitCode {
    match commands::dispatch(cli) {
        Ok(outcome) => {
            outcome
                .messages()
                .iter()
                .for_each(|message| report::line(message));
            die_of_interrupt(&outcome);
            outcome.code().into()
        }
        Err(error) => failure(&error),
    }
}

/// A shell's loop around pglock ends on Ctrl-C only if pglock dies of it, as the command would have done.
fn die_of_interrupt(outcome: &Outcome) {
    if let Some(signal) = outcome.interrupt()
        && terminal::is_controlling()
    {
        // Process 1 cannot die of a signal; the exit status says the same.
        let _ = signals::die_of(signal);
    }
}

fn failure(error: &anyhow::Error) -> ExitCode {
    report::line(&text::of_error(error));
    exit::code_of(error).into()
}

/// clap reports a request for help or version as an error too.
fn help_or_usage_error(error: &clap::Error) -> ExitCode {
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            match output::write(&error.to_string()) {
                Ok(()) => ExitCode::SUCCESS,
                Err(error) => failure(&error),
            }
        }
        _ => failure(&Fault::Usage.error(mistake::mistake(error))),
    }
}
