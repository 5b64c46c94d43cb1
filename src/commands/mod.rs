//! One file per verb that a user types.

mod check;
mod key;
mod list;
mod release;
mod run;

use crate::cli::{self, Cli, Verb};
use crate::exit::Outcome;
use crate::session::Scope;

/// Does what was asked for.
pub fn dispatch(cli: Cli) -> anyhow::Result<Outcome> {
    let connection = cli.connection;
    match cli.verb {
        Verb::Run(args) => run::run(&connection, args),
        Verb::Try(job) => run::try_once(&connection, job),
        Verb::List(args) => list::list(&connection, &args),
        Verb::Release(args) => release::release(&connection, &args),
        Verb::Key(args) => key::key(&args),
        Verb::Check(args) => check::check(&connection, &args),
    }
}

/// The scope as it was typed.
fn scope(typed: cli::Scope) -> Scope {
    match typed {
        cli::Scope::Session => Scope::Session,
        cli::Scope::Transaction => Scope::Transaction,
    }
}

/// Runs `work` to its end on this thread.
///
/// A name look-up that still hangs in its own thread is left behind, not waited for.
fn block_on<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .build()?;
    let result = runtime.block_on(work);
    runtime.shutdown_background();
    result
}
