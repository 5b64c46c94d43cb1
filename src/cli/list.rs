//! `list`.

use clap::{Args, ValueEnum};

use super::naming::NamingArgs;

/// What to list and how.
#[derive(Debug, Args)]
pub struct ListArgs {
    #[command(flatten)]
    pub naming: NamingArgs,

    /// Format of the output
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = Format::Table)]
    pub format: Format,

    /// The same as --format json
    #[arg(long, conflicts_with = "format")]
    pub json: bool,

    /// More columns: application, client, database, blocked by
    ///
    /// Of columns that do not fit the terminal the least important are left out; `| cat` shows all. COLUMNS in the
    /// environment says how wide it is to be, also where there is no terminal.
    #[arg(long)]
    pub wide: bool,

    /// Draw each waiter beneath one that it waits for, and what it holds itself beneath that
    #[arg(long, conflicts_with_all = ["json", "quiet"])]
    pub tree: bool,

    /// Look again every SECONDS [default: 2], until q or Ctrl-C
    ///
    /// On a terminal the table is painted anew in place, space looks at once, and a connection that is lost is
    /// opened again. Other formats, and where standard output is no terminal, come one after the other.
    /// At least 0.1; 500ms and 1m are also read.
    #[arg(
        long,
        value_name = "SECONDS",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "2",
        conflicts_with = "quiet"
    )]
    pub watch: Option<String>,

    /// Locks of all databases of the server, not only of the current one
    #[arg(short, long)]
    pub all_databases: bool,

    /// No output: exit 0 when a lock is held, 1 when none is
    #[arg(short, long)]
    pub quiet: bool,

    /// Only these locks; a glob (* ? [...]) matches names of locks taken by pglock
    #[arg(value_name = "NAME", allow_negative_numbers = true)]
    pub name: Vec<String>,
}

/// How `list` writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people
    Table,
    /// One array; the keys are stable
    Json,
    /// RFC 4180, with a header line
    Csv,
    /// OpenMetrics text: holders, waiters and their seconds by lock, as for the node exporter's textfile collector
    Prometheus,
}
