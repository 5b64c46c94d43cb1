//! `run` and `try`.

use std::ffi::OsString;

use clap::{ArgGroup, Args, ValueEnum, ValueHint};

use super::naming::NamingArgs;

/// Arguments of `run`: those of `try`, and how to wait.
#[derive(Debug, Args)]
pub struct RunArgs {
    /// Wait at most this long for connection and lock together; 0 is like `try`
    ///
    /// 90, 90s, 5m, 1h30m or 250ms; a bare number is seconds. Without it pglock waits for ever.
    #[arg(
        short = 'w',
        long,
        value_name = "DURATION",
        conflicts_with = "nonblock"
    )]
    pub timeout: Option<String>,

    /// Do not wait: like `try`
    #[arg(short, long)]
    pub nonblock: bool,

    /// Do not join the queue if N others already wait; exit with 75
    #[arg(long, value_name = "N")]
    pub max_waiters: Option<u32>,

    #[command(flatten)]
    pub job: JobArgs,
}

/// A lock and the command to run under it.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("job").required(true).args(["shell", "command"]))]
pub struct JobArgs {
    #[command(flatten)]
    pub naming: NamingArgs,

    /// Exit with N (0-255) instead of 75 when the lock was not obtained
    #[arg(short = 'E', long, value_name = "N")]
    pub conflict_exit_code: Option<u8>,

    /// Take a shared lock: many shared holders at once, or one exclusive
    #[arg(short, long)]
    pub shared: bool,

    /// Run STRING with /bin/sh -c
    #[arg(
        short = 'c',
        long = "command",
        id = "shell",
        value_name = "STRING",
        value_hint = ValueHint::CommandString
    )]
    pub shell: Option<OsString>,

    /// What of the server's holds the lock: the session, or one open transaction
    ///
    /// `transaction` works through a pooler in transaction mode, which keeps a backend for a transaction and for
    /// no longer. The transaction stays open for as long as COMMAND runs; it is READ COMMITTED, holds no
    /// snapshot, and holds back no vacuum. A pooler's own limits (PgBouncer: idle_transaction_timeout,
    /// transaction_timeout, query_timeout) still end it. Waiting is not shown by `list`.
    #[arg(long, value_name = "SCOPE", value_enum, default_value_t = Scope::Session)]
    pub scope: Scope,

    /// How long the server may go without hearing of this host before it frees the lock [default: 30s]
    ///
    /// At least 3s, at most 24h. A heartbeat every sixth of it (at most 15s) proves that the lock is still
    /// held; one that is not answered for another sixth counts as a lost lock, and COMMAND is stopped, dead
    /// before the server gives the lock away.
    #[arg(long, value_name = "DURATION")]
    pub lease: Option<String>,

    /// Time between TERM and KILL when pglock itself stops the command [default: 10s]
    ///
    /// It does so when the lock is lost while the command runs, when somebody asks for it (`release`), and after
    /// --max-runtime. At most half of the lease; with a lease of less
    /// than 30s the default is a third of it.
    #[arg(long, value_name = "DURATION")]
    pub grace: Option<String>,

    /// Hold this lock, too; may be given several times
    ///
    /// All are taken together or none is, in one order whoever asks, so that no two wait for one another. The
    /// names are read as NAME is. Who waits for several stands in the queue of each, but is passed by others while
    /// only some of them are free.
    #[arg(long, value_name = "NAME", allow_hyphen_values = true)]
    pub also: Vec<String>,

    /// Let at most N (1-100) hold the lock at once, each in a slot of its own
    ///
    /// COMMAND finds the number of its slot, from 0, in PGLOCK_SLOT. Slot 0 is the plain lock, so --slots 1 is the
    /// ordinary lock. Everybody has to say the same N: whoever says more gets slots that the others do not count.
    #[arg(long, value_name = "N", conflicts_with = "shared", value_parser = clap::value_parser!(u32).range(1..=100))]
    pub slots: Option<u32>,

    /// Give COMMAND a fencing token in PGLOCK_TOKEN
    ///
    /// 24 hexadecimal digits that sort as text and rise with every acquisition in the cluster, across crashes and
    /// across the promotion of a standby: what is written with a token can refuse a lower one. It costs a message in
    /// the write-ahead log, flushed to disk; with --scope transaction also a second connection, for which a pooler has to
    /// have a backend left. A new cluster, as after a dump or pg_upgrade, begins anew.
    #[arg(long)]
    pub token: bool,

    /// Keep the lock this long after it was taken, even if COMMAND ended sooner
    ///
    /// For jobs that are shorter than the difference between the clocks of the hosts. TERM, INT, HUP or QUIT to
    /// pglock ends the holding, as does a TERM that came while COMMAND ran, or an INT or QUIT that COMMAND ended by; and
    /// so does kill -9: no guardian keeps a lock without a command.
    #[arg(long, value_name = "DURATION")]
    pub hold_at_least: Option<String>,

    /// Stop COMMAND when it has run this long: TERM, and KILL after the grace; exit with 124
    ///
    /// 0 is no limit. pglock does that, not the guardian: after kill -9 of pglock nothing limits the time.
    #[arg(long, value_name = "DURATION")]
    pub max_runtime: Option<String>,

    /// Wait a random time up to this before connecting
    ///
    /// It does not count for --timeout.
    #[arg(long, value_name = "DURATION")]
    pub jitter: Option<String>,

    /// No guardian: if pglock is killed with -9 the lock goes at once
    ///
    /// Without this a small process keeps the lock in that case until COMMAND has ended.
    #[arg(short = 'o', long)]
    pub close: bool,

    /// What to do with COMMAND when the lock is lost while it runs
    ///
    /// Either way the exit status is 123, and the cause is said.
    #[arg(long, value_name = "WHAT", value_enum, default_value_t = OnLost::Stop)]
    pub on_lost: OnLost,

    /// No message when the lock was not obtained
    #[arg(short, long)]
    pub quiet: bool,

    /// Say on standard error what is done, with times
    #[arg(short, long)]
    pub verbose: bool,

    /// Name of the lock: any text
    #[arg(value_name = "NAME", allow_negative_numbers = true)]
    pub name: String,

    /// Command to run, and its arguments; no shell is involved
    ///
    /// Everything from the first word of COMMAND on belongs to COMMAND, with or without --.
    #[arg(
        id = "command",
        value_name = "COMMAND",
        trailing_var_arg = true,
        value_hint = ValueHint::CommandWithArguments
    )]
    pub command: Vec<OsString>,
}

/// What of the server's owns the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Scope {
    /// The session, across all its transactions
    Session,
    /// One transaction, for poolers that share out sessions
    Transaction,
}

/// What a lost lock means for the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OnLost {
    /// TERM to everything of it, KILL after the grace
    Stop,
    /// Say so, and let it finish
    Warn,
}
