//! Who holds and who waits: one query → rows → [`LockView`]s; and what a server says of itself → [`FitnessView`].

mod age;
mod ask;
mod bookkeeping;
mod collisions;
mod fitness;
mod keepers;
mod owner;
mod requests;
mod rows;
mod server;
mod terminate;
mod view;
mod views;

pub use self::ask::{ask, still_holds_as_asked};
pub use self::collisions::collisions;
pub use self::fitness::{DeadHostDetection, FitnessView, LockTrial};
pub use self::keepers::name_owners;
pub use self::rows::Scope;
pub use self::server::{
    ConnectionsView, EncryptionView, RightsView, ServerView, SettingView, grant_to_see,
};
pub use self::terminate::{Notice, still_holds, terminate};
pub use self::view::{LockView, State};
use crate::key::LockKey;
use crate::session::Session;

/// What a server knows of advisory locks.
pub struct Inventory {
    pub locks: Vec<LockView>,
    /// It knows none of the primary's.
    pub is_standby: bool,
}

/// Every advisory lock in `scope`, holders before waiters, oldest first.
///
/// Everything that holds or waits appears once for each key, backend and mode.
pub async fn read(session: &mut Session, scope: &Scope) -> anyhow::Result<Inventory> {
    let (rows, is_standby) = rows::read(session, scope).await?;
    Ok(Inventory {
        locks: views::from_rows(rows),
        is_standby,
    })
}

/// Who holds these locks in the current database, or a slot of one of them.
pub async fn holders(session: &mut Session, keys: &[LockKey]) -> anyhow::Result<Vec<LockView>> {
    let mut inventory = read(session, &Scope::Holders(keys.to_vec())).await?;
    inventory
        .locks
        .retain(|holder| keys.iter().any(|key| holder.lock_key == *key));
    Ok(inventory.locks)
}
