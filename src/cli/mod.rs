//! The command line, exactly as typed: clap types, and of pglock nothing but the words of its catalogue.

#![allow(
    clippy::doc_markdown,
    clippy::struct_excessive_bools,
    reason = "doc comments are the help text, and a flag is a bool until it is resolved"
)]

mod check;
mod connection;
mod deferred;
mod key;
mod list;
mod naming;
mod release;
mod run;
pub mod sections;
mod words;

use clap::{ArgAction, Parser, Subcommand};

pub use self::check::CheckArgs;
pub use self::connection::ConnectionArgs;
pub use self::deferred::Deferred;
pub use self::key::KeyArgs;
pub use self::list::{Format, ListArgs};
pub use self::naming::NamingArgs;
pub use self::release::ReleaseArgs;
pub use self::run::{JobArgs, OnLost, RunArgs, Scope};
use self::sections::sections;

/// Run a command while holding a PostgreSQL advisory lock.
#[derive(Debug, Parser)]
#[command(
    name = "pglock",
    bin_name = "pglock",
    version,
    max_term_width = 100,
    disable_help_flag = true,
    subcommand_required = true,
    arg_required_else_help = false,
    long_about = "Run a command while holding a PostgreSQL advisory lock, so that of many hosts, \
                  containers or CI jobs exactly one does the work.\n\n\
                  The lock lives in the server's memory and belongs to pglock's session: it goes when the \
                  command has ended, and also when pglock, its host or its connection dies. There is no \
                  table and nothing to clean up.",
    after_long_help = sections()
)]
pub struct Cli {
    #[command(flatten)]
    pub connection: ConnectionArgs,

    /// Print help (-? is brief, --help is complete)
    #[arg(short = '?', long, global = true, action = ArgAction::Help, help_heading = "Help")]
    help: Option<bool>,

    #[command(subcommand)]
    pub verb: Verb,
}

/// What pglock can be asked to do.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Wait for the lock, then run COMMAND while holding it
    ///
    /// The lock is released when COMMAND has ended, and pglock exits with COMMAND's status.
    /// Silent unless the lock was not obtained, but for a line on a terminal while it waits.
    #[command(
        override_usage = "pglock run [OPTIONS] NAME [--] COMMAND [ARG...]\n       pglock run [OPTIONS] NAME -c STRING"
    )]
    Run(Deferred<RunArgs>),

    /// Run COMMAND if the lock is free now, and never wait
    ///
    /// As `run`, but when somebody else holds the lock nothing is run and the exit status is 75.
    #[command(
        override_usage = "pglock try [OPTIONS] NAME [--] COMMAND [ARG...]\n       pglock try [OPTIONS] NAME -c STRING"
    )]
    Try(Deferred<JobArgs>),

    /// Show who holds and who waits for advisory locks
    ///
    /// Without NAME: every advisory lock of the current database, whichever program took it.
    List(Deferred<ListArgs>),

    /// Free a lock that somebody else holds
    ///
    /// A holder that is pglock is asked: with its next heartbeat, every 5s unless its --lease says otherwise, it
    /// stops its command (TERM, and KILL after its --grace), and frees the lock when that is dead. It obeys whom
    /// PostgreSQL would let end its session: its own role, members of it or of pg_signal_backend, superusers.
    /// With --force, and for any other holder, the session is terminated (pg_terminate_backend): the lock is
    /// then free a moment before a command under it is dead. On a terminal pglock asks before it ends the
    /// session of another program; elsewhere that takes --force or --yes. It waits until the lock is really
    /// gone. Exits 0 when freed, 1 when nothing was held, 75 when still held, 120 when the role may not.
    Release(Deferred<ReleaseArgs>),

    /// Print the key of each NAME, one a line; needs no server
    ///
    /// A bigint, or two int4 as A,B with --namespace: what pg_advisory_lock takes and pg_locks shows.
    /// With --check it looks for names that share a key: exits 0 when there are none, 1 when there are.
    #[command(
        override_usage = "pglock key [OPTIONS] NAME...\n       pglock key [OPTIONS] --all NAME\n       pglock key [OPTIONS] --check FILE"
    )]
    Key(Deferred<KeyArgs>),

    /// Say whether this connection is fit to hold locks
    ///
    /// Takes a lock that nobody else uses, as `run` does, has it proved, frees it, and shows what was found:
    /// server, pooler, TLS, defaults that would hurt, dead-host detection, rights and free connections.
    /// Exits 0, or with what `run` would exit with, whose message it gives; what was found is shown then too.
    /// When it cannot connect nothing is shown, unless --json asks for it.
    Check(Deferred<CheckArgs>),
}
