//! `check`.

use clap::Args;

use super::run::Scope;

/// What kind of lock is to be tried, and how to say what was found.
#[derive(Debug, Args)]
pub struct CheckArgs {
    /// Check where the locks of this namespace live; PGLOCK_NAMESPACE in the environment does the same
    ///
    /// Where the connection string holds {shard:N}, each place is checked, in order.
    #[arg(short = 'N', long, value_name = "NS")]
    pub namespace: Option<String>,

    /// Try a lock that is held by the session, or by one open transaction
    ///
    /// Behind a transaction pooler only `transaction` is fit.
    #[arg(long, value_name = "SCOPE", value_enum, default_value_t = Scope::Session)]
    pub scope: Scope,

    /// As in `run`: how long the server may go without hearing of this host [default: 30s]
    ///
    /// Whether the server finds out in that time is shown as dead-host detection.
    #[arg(long, value_name = "DURATION")]
    pub lease: Option<String>,

    /// One JSON object; the keys are stable
    #[arg(long)]
    pub json: bool,
}
