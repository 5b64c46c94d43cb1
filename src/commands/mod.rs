//! One file per verb that a user types.

mod check;
mod key;
mod list;
mod release;
mod run;

use std::ops::ControlFlow;

use anyhow::Context as _;

use crate::cli::{self, Cli, Deferred, Verb};
use crate::connection::Settings;
use crate::exit::{Fault, Outcome};
use crate::key::{Lock, LockName};
use crate::session::{Scope, Session};
use crate::signals::{self, Signals};

/// Does what was asked for.
pub fn dispatch(cli: Cli) -> anyhow::Result<Outcome> {
    let connection = cli.connection;
    match cli.verb {
        Verb::Run(Deferred(args)) => run::run(&connection, args),
        Verb::Try(Deferred(job)) => run::try_once(&connection, job),
        Verb::List(Deferred(args)) => list::list(&connection, &args),
        Verb::Release(Deferred(args)) => release::release(&connection, &args),
        Verb::Key(Deferred(args)) => key::key(&args),
        Verb::Check(Deferred(args)) => check::check(&connection, &args),
    }
}

/// The scope as it was typed.
fn scope(typed: cli::Scope) -> Scope {
    match typed {
        cli::Scope::Session => Scope::Session,
        cli::Scope::Transaction => Scope::Transaction,
    }
}

/// A program's lock for one database, taken or looked for in another, would be nobody's: a usage error.
fn require_its_database(lock: &Lock, settings: &Settings) -> anyhow::Result<()> {
    let database = lock.name.as_ref().and_then(LockName::database);
    match database.filter(|database| *database != settings.database) {
        None => Ok(()),
        Some(database) => Err(Fault::Usage.error(format!(
            "the lock for database {database} is taken there, and this connects to {} (-d)",
            settings.database
        ))),
    }
}

/// Runs `work` to its end on this thread.
fn block_on<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .build()
        .context("watching what happens")?;
    runtime.block_on(work)
}

/// Opens the session of a verb that runs no command, unless a signal ends pglock first.
///
/// The signal's default effect would leave the terminal without echo if it came while the password is asked for.
async fn open(
    settings: &Settings,
    application_name: &str,
) -> anyhow::Result<ControlFlow<Outcome, Session>> {
    let inherited = signals::block()?;
    let mut signals = Signals::open(&inherited)?;
    let opened = tokio::select! {
        biased;
        signal = signals.next_ending() => signal
            .map(|signal| ControlFlow::Break(Outcome::Interrupted { signal: signal as i32 }))
            .map_err(Into::into),
        session = Session::open(settings, application_name) => session.map(ControlFlow::Continue),
    };
    inherited.unblock()?;
    opened
}

/// A lock that is not found on a standby may be held on the primary.
fn standby() -> anyhow::Error {
    Fault::Unfit.error(
        "this server is a standby, which does not know the primary's locks; connect to the primary",
    )
}
