//! The command line, exactly as typed: clap types, and of pglock nothing but the words of its catalogue.

#![allow(
    clippy::doc_markdown,
    clippy::struct_excessive_bools,
    reason = "doc comments are the help text, and a flag is a bool until it is resolved"
)]

#[path = "cli/words.rs"]
mod words;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{ArgAction, ArgGroup, Args, Parser, Subcommand, ValueEnum, ValueHint};

use self::words::Words;
use super::catalogue::{PROGRAMS, SCHEMES};

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

/// Where to connect; accepted before and after the subcommand.
#[derive(Debug, Args)]
#[command(next_help_heading = "Connection")]
pub struct ConnectionArgs {
    /// Database name, or a connection URI or keyword=value string
    ///
    /// As psql's -d: parameters of a connection string win over -h, -p and -U. Of options given twice the last
    /// one counts. {namespace} stands for the lock's namespace, and {shard:N} for a number below N that the
    /// lock's name decides: SHA-256(NAME), its first 8 bytes as an unsigned number, modulo N.
    #[arg(
        short,
        long,
        global = true,
        value_name = "DBNAME",
        overrides_with = "dbname"
    )]
    pub dbname: Option<String>,

    /// Server host name, or the directory of its Unix socket
    #[arg(
        short = 'h',
        long,
        global = true,
        value_name = "HOST",
        overrides_with = "host"
    )]
    pub host: Option<String>,

    /// Server port
    #[arg(
        short,
        long,
        global = true,
        value_name = "PORT",
        overrides_with = "port"
    )]
    pub port: Option<String>,

    /// Role to connect as
    #[arg(
        short = 'U',
        long,
        global = true,
        value_name = "USER",
        overrides_with = "username"
    )]
    pub username: Option<String>,

    /// Ask for the password before connecting, even if one is known
    ///
    /// Without it pglock asks, as psql does, when the server wants a password and none is known, if there is a
    /// terminal.
    #[arg(short = 'W', long, global = true, overrides_with_all = ["password", "no_password"])]
    pub password: bool,

    /// Never ask for a password
    ///
    /// A server that wants one which is not known is then an error, as without a terminal (status 121).
    #[arg(long, global = true, overrides_with_all = ["password", "no_password"])]
    pub no_password: bool,
}

impl ConnectionArgs {
    /// The options that say where to connect, as words of a command line.
    pub fn as_typed(&self) -> Vec<String> {
        let options = [
            ("-d", &self.dbname),
            ("-h", &self.host),
            ("-p", &self.port),
            ("-U", &self.username),
        ];
        let typed = options.into_iter().filter_map(|(option, value)| {
            let value = value.as_ref()?;
            Some([option.to_owned(), value.clone()])
        });
        typed.flatten().collect()
    }
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
    Run(RunArgs),

    /// Run COMMAND if the lock is free now, and never wait
    ///
    /// As `run`, but when somebody else holds the lock nothing is run and the exit status is 75.
    #[command(
        override_usage = "pglock try [OPTIONS] NAME [--] COMMAND [ARG...]\n       pglock try [OPTIONS] NAME -c STRING"
    )]
    Try(JobArgs),

    /// Show who holds and who waits for advisory locks
    ///
    /// Without NAME: every advisory lock of the current database, whichever program took it.
    List(ListArgs),

    /// Free a lock that somebody else holds
    ///
    /// A holder that is pglock is asked: with its next heartbeat, every 5s unless its --lease says otherwise, it
    /// stops its command (TERM, and KILL after its --grace), and frees the lock when that is dead. It obeys whom
    /// PostgreSQL would let end its session: its own role, members of it or of pg_signal_backend, superusers.
    /// With --force, and for any other holder, the session is terminated (pg_terminate_backend): the lock is
    /// then free a moment before a command under it is dead. On a terminal pglock asks before it ends the
    /// session of another program; elsewhere that takes --force or --yes. It waits until the lock is really
    /// gone. Exits 0 when freed, 1 when nothing was held, 75 when still held, 120 when the role may not.
    Release(ReleaseArgs),

    /// Print the key of each NAME, one a line; needs no server
    ///
    /// A bigint, or two int4 as A,B with --namespace: what pg_advisory_lock takes and pg_locks shows.
    /// With --check it looks for names that share a key: exits 0 when there are none, 1 when there are.
    #[command(
        override_usage = "pglock key [OPTIONS] NAME...\n       pglock key [OPTIONS] --all NAME\n       pglock key [OPTIONS] --check FILE"
    )]
    Key(KeyArgs),

    /// Say whether this connection is fit to hold locks
    ///
    /// Takes a lock that nobody else uses, as `run` does, has it proved, frees it, and shows what was found:
    /// server, pooler, TLS, defaults that would hurt, dead-host detection, rights and free connections.
    /// Exits 0, or with what `run` would exit with, whose message it gives; what was found is shown then too.
    /// When it cannot connect nothing is shown, unless --json asks for it.
    Check(CheckArgs),
}

/// How a NAME becomes a key.
#[derive(Debug, Default, Args)]
pub struct NamingArgs {
    /// Put NAME into this namespace: the two-integer form of the key
    ///
    /// Locks of different namespaces never collide with one another or with plain names, unless both
    /// 32-bit hashes agree. PGLOCK_NAMESPACE in the environment does the same, except that `list` without
    /// NAME is narrowed down to a namespace only by the option.
    #[arg(short = 'N', long, value_name = "NS", conflicts_with = "raw")]
    pub namespace: Option<String>,

    /// NAME is the key itself: a 64-bit integer, or A,B with two 32-bit integers
    ///
    /// Write a pair that begins with a minus sign after --: pglock key --raw -- -1,5
    #[arg(long)]
    pub raw: bool,

    /// Turn NAME into a key as other software does [default: sha256]
    ///
    /// General: sha256, sha256-le, sha224, sha1, sha1-le, md5, hashtext, hashtextextended, crc32, crc32-signed,
    /// fnv1-32, fnv1a-32, fnv1-64, fnv1a-64, java, dotnet, djb2x, djb2x-reversed, blake2b. Those of libraries that lock
    /// by name: advisory-lock, closure-tree, distributed-lock, django-pglock, django-pglocks, heimdall, jakm-pglock,
    /// oca-connector, pals, pg-lock, pglocker, sqlalchemy-dlock, sqlx, symfony, with-advisory-lock, yii. With --namespace
    /// only hashes of 32 bits (NS and NAME are hashed to an int4 each), sha256 and heimdall go. `pglock key --all NAME`
    /// shows what each gives, and pglock(1) says what it is.
    #[arg(
        long,
        value_name = "SCHEME",
        value_parser = Words(schemes),
        hide_possible_values = true,
        conflicts_with = "raw"
    )]
    pub hash: Option<String>,

    /// Take the very lock that this program takes; NAME says for what, or is only a label
    ///
    /// rails-migrations, sqlx-migrate, golang-migrate and grafana lock a database: NAME is the database's name,
    /// which must be the one that is connected to.
    /// flyway and liquibase-sessionlock: SCHEMA,TABLE. Those that have but one lock (prisma-migrate, goose, tern, sqitch,
    /// node-pg-migrate, kysely, ...) take any NAME, as a label. pglock(1) lists all programs and what NAME is to each.
    #[arg(
        long = "as",
        value_name = "PROGRAM",
        value_parser = Words(programs),
        hide_possible_values = true,
        conflicts_with_all = ["raw", "hash", "namespace"]
    )]
    pub program: Option<String>,
}

fn schemes() -> Vec<(&'static str, &'static str)> {
    let words = SCHEMES.iter().map(|scheme| (scheme.word, scheme.gives));
    words.collect()
}

fn programs() -> Vec<(&'static str, &'static str)> {
    let words = PROGRAMS
        .iter()
        .filter_map(|program| Some((program.word?, program.title)));
    words.collect()
}

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
    /// pglock ends the holding, and so does kill -9: no guardian keeps a lock without a command.
    #[arg(long, value_name = "DURATION")]
    pub hold_at_least: Option<String>,

    /// Stop COMMAND when it has run this long: TERM, and KILL after the grace; exit with 124
    ///
    /// pglock does that, not the guardian: after kill -9 of pglock nothing limits the time.
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

/// What each exit status means, for --help and the manual page.
pub const EXIT_STATUS: [(&str, &str); 13] = [
    ("the command's own", "the command ran to its end"),
    (
        "128+N",
        "the command was killed by signal N, or pglock got signal N while waiting (nothing was run)",
    ),
    (
        "0, 1",
        "list -q: held, not held; release: freed, nothing was held; key --check: no key is shared, one is",
    ),
    (
        "75",
        "the lock was not obtained, or is still held after release (-E changes it for run and try)",
    ),
    ("120", "permission denied by the server"),
    (
        "121",
        "cannot connect: refused, timed out, authentication, TLS, too many connections",
    ),
    (
        "122",
        "this server or pooler cannot hold such a lock (transaction pooler, standby, look-alike); nothing was run",
    ),
    (
        "123",
        "the lock was lost while the command ran; the command was stopped, unless --on-lost warn",
    ),
    ("124", "the command overran --max-runtime and was stopped"),
    (
        "125",
        "pglock failed otherwise: usage, configuration, an unexpected server error",
    ),
    (
        "126",
        "the command cannot be executed (the lock was released)",
    ),
    ("127", "the command was not found (the lock was released)"),
    ("0", "everything else that was asked for was done"),
];

/// The environment that pglock reads and sets, for --help and the manual page.
pub const ENVIRONMENT: [(&str, &str); 12] = [
    (
        "PGLOCK_NAMESPACE",
        "as --namespace; empty means unset; set for the command if there is one",
    ),
    (
        "PGLOCK_URL",
        "where to connect: a URI or a keyword=value string, {namespace} and {shard:N} in it as in -d; options win over it",
    ),
    (
        "PGHOST, PGPORT, PGDATABASE, PGUSER, PGPASSFILE, PGSERVICE, PGSSLMODE and the other PG* variables",
        "as for psql, after options and PGLOCK_URL",
    ),
    (
        "PGCONNECT_TIMEOUT",
        "seconds for name look-up, TCP, TLS and authentication; 10 by default, 0 waits for ever",
    ),
    (
        "DATABASE_URL",
        "used only if nothing else says where to connect",
    ),
    (
        "PGLOCK_NAME, PGLOCK_KEY",
        "set for the command: the lock's name, and its key (N, or A,B in a namespace)",
    ),
    (
        "PGLOCK_BACKEND_PID",
        "set for the command: the process ID of the server's backend that holds the lock",
    ),
    (
        "PGLOCK_HELD",
        "set for the command, and read: what this pglock and those that run it hold, KEY@BACKEND_PID each, so that none waits for itself",
    ),
    (
        "PGLOCK_SLOT",
        "set for the command with --slots: the number of its slot, from 0",
    ),
    (
        "PGLOCK_TOKEN",
        "set for the command with --token: 24 hexadecimal digits that rise with every acquisition",
    ),
    (
        "COLUMNS",
        "how wide the output of list and check is to be, instead of the terminal's width",
    ),
    (
        "NO_COLOR, TERM",
        "list is coloured on a terminal, unless NO_COLOR is set or TERM is dumb",
    ),
];

/// The end of `pglock --help`.
fn sections() -> String {
    let list = |title: &str, items: &[(&str, &str)]| {
        items
            .iter()
            .fold(format!("{title}:\n"), |text, (term, meaning)| {
                format!("{text}  {term}\n          {meaning}\n")
            })
    };
    [
        list("Exit status", &EXIT_STATUS),
        list("Environment", &ENVIRONMENT),
    ]
    .join("\n")
}
