//! `release`.

use clap::Args;

use super::naming::NamingArgs;

/// Which locks to free.
#[derive(Debug, Args)]
pub struct ReleaseArgs {
    #[command(flatten)]
    pub naming: NamingArgs,

    /// Terminate the holders' sessions at once, those of pglock too
    #[arg(short, long)]
    pub force: bool,

    /// End sessions of other programs without a question; a pglock is still asked to stop
    #[arg(short, long)]
    pub yes: bool,

    /// Show what it would do with whom, and do nothing
    #[arg(long)]
    pub dry_run: bool,

    /// Only the holder with this backend process ID
    #[arg(long, value_name = "PID")]
    pub pid: Option<i32>,

    /// Wait at most this long until the lock is really gone [default: 30s]
    ///
    /// Then the status is 75, and a pglock that has not answered is no longer asked: one whose heartbeats are
    /// further apart, which is stopped itself, or which was killed and has left its lock to its guardian.
    /// 90, 90s, 5m, 1h30m or 250ms; a bare number is seconds.
    #[arg(long, value_name = "DURATION")]
    pub timeout: Option<String>,

    /// Names of the locks
    #[arg(value_name = "NAME", required = true, allow_negative_numbers = true)]
    pub name: Vec<String>,
}
