//! Who holds and who waits: one query → rows → [`LockView`]s.

mod rows;
mod terminate;
mod view;

use tokio_postgres::Client;
use tokio_postgres::error::SqlState;

pub use self::rows::Scope;
pub use self::terminate::{Termination, still_holds, terminate};
pub use self::view::{LockView, State};
use crate::connection;
use crate::exit::Fault;
use crate::key::LockKey;

/// Every advisory lock in `scope`, holders before waiters, oldest first.
///
/// Everything that holds or waits appears once for each key, backend and mode.
pub async fn read(client: &Client, scope: Scope) -> anyhow::Result<Vec<LockView>> {
    let rows = rows::read(client, scope)
        .await
        .map_err(|error| refused(&error))?;
    Ok(view::from_rows(rows))
}

/// Who holds this key in the current database.
pub async fn holders(client: &Client, key: LockKey) -> anyhow::Result<Vec<LockView>> {
    let mut views = read(client, Scope::Key(key)).await?;
    views.retain(|view| view.state == State::Held);
    Ok(views)
}

fn refused(error: &tokio_postgres::Error) -> anyhow::Error {
    let said = connection::describe(error);
    match error.code() {
        Some(code) if *code == SqlState::INSUFFICIENT_PRIVILEGE => {
            Fault::PermissionDenied.error(said)
        }
        _ => anyhow::anyhow!("reading the locks: {said}"),
    }
}
