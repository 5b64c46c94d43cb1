//! What was typed after `scripts/bench`.

use std::path::PathBuf;

use clap::{Parser, ValueEnum};
use serde::Serialize;

/// Measures pglock beside its peers.
#[derive(Parser)]
#[command(name = "scripts/bench", disable_help_flag = true)]
pub struct Options {
    /// Rounds of whole runs; slow peers run in every tenth of them
    #[arg(long, default_value_t = 300, value_parser = clap::value_parser!(u32).range(1..))]
    pub rounds: u32,
    /// Leave out peers, measure again what is over a limit, and end with 1 if it stays so
    #[arg(long)]
    pub check: bool,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
    /// Measure this alone; may be repeated
    #[arg(long, value_name = "SUBJECT")]
    only: Vec<Subject>,
    /// A second build of pglock, measured in the same rounds
    #[arg(long = "static", value_name = "BINARY")]
    pub other_build: Option<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Subject {
    WholeRun,
    RoundTrips,
    Memory,
    WakeUps,
    Queue,
    List,
    Footprint,
}

impl Options {
    pub fn subjects(&self) -> Vec<Subject> {
        let is_wanted = |subject: &Subject| self.only.is_empty() || self.only.contains(subject);
        Subject::value_variants()
            .iter()
            .copied()
            .filter(is_wanted)
            .collect()
    }
}

impl Subject {
    pub fn title(self) -> &'static str {
        match self {
            Self::WholeRun => "a whole run of `true`",
            Self::RoundTrips => "a whole run of `true` far from the server",
            Self::Memory => "memory",
            Self::WakeUps => "a held lock while nothing happens",
            Self::Queue => "pglocks waiting in line",
            Self::List => "list --json, and psql with the same query",
            Self::Footprint => "the programs themselves",
        }
    }
}
