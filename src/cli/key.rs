//! `key`.

use std::path::PathBuf;

use clap::Args;

use super::naming::NamingArgs;

/// Whose keys to print.
#[derive(Debug, Args)]
pub struct KeyArgs {
    #[command(flatten)]
    pub naming: NamingArgs,

    /// A table of the keys that all schemes of --hash give NAME
    ///
    /// With --namespace only those that have keys in one.
    #[arg(long, conflicts_with_all = ["hash", "program", "raw"])]
    pub all: bool,

    /// Look for names that share a key, among those in FILE, one a line; - is standard input
    ///
    /// A line for each pair; exits 1 when there is one. Empty lines are skipped, and a name may stand there twice.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["all", "name"])]
    pub check: Option<PathBuf>,

    /// Names of the locks
    #[arg(
        value_name = "NAME",
        required_unless_present = "check",
        allow_negative_numbers = true
    )]
    pub name: Vec<String>,
}
