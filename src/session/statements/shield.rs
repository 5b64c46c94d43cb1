//! What keeps a role's and a database's defaults from pglock's session, and the server from waiting for a dead host.

use super::is_backend;
use crate::session::{Request, Server};

/// In front of everything: in a transaction that is serializable and deferrable by default, any statement may
/// wait for those of others. No timeout of the role counts for what follows, in this message alone.
pub const READ_COMMITTED: &str =
    "SET TRANSACTION ISOLATION LEVEL READ COMMITTED; SET LOCAL statement_timeout = 0";

/// `statement` behind what keeps a role's defaults from it, in a message that leaves nothing behind.
pub fn shielded(statement: &str) -> String {
    format!(
        "{READ_COMMITTED}; \
         SELECT pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true); \
         {statement}"
    )
}

/// How long a setting lasts.
#[derive(Clone, Copy)]
pub enum Extent {
    Session,
    Transaction,
}

/// What a role's or a database's defaults must not do, by the major version that brought it.
type Shielded = (&'static str, &'static str, u32);
const SHIELDED: [Shielded; 3] = [
    ("statement_timeout", "0", 0),
    ("lock_timeout", "0", 0),
    ("transaction_timeout", "0", 17),
];
const SHIELDED_BETWEEN_TRANSACTIONS: [Shielded; 2] = [
    ("idle_session_timeout", "0", 14),
    ("default_transaction_isolation", "read committed", 0),
];
const SHIELDED_IN_TRANSACTION: [Shielded; 1] = [("idle_in_transaction_session_timeout", "0", 0)];

/// The settings that a role's or a database's defaults must not decide, with the values that do no harm.
pub fn shielded_settings() -> impl Iterator<Item = (&'static str, &'static str)> {
    SHIELDED
        .iter()
        .chain(&SHIELDED_BETWEEN_TRANSACTIONS)
        .chain(&SHIELDED_IN_TRANSACTION)
        .map(|(setting, harmless, _)| (*setting, *harmless))
}

/// The message that keeps the session from being ended while it idles, if it is this backend's.
pub fn shield_alone(server: &Server, backend_pid: i32) -> String {
    let shield = shield(server, None, Extent::Session);
    let is_expected = is_backend(backend_pid);
    format!("{READ_COMMITTED}; {shield} WHERE {is_expected}")
}

/// Opens a transaction that may stay open: no default of the role ends it, or has it keep a snapshot.
pub fn begin(server: &Server) -> String {
    let shield = shield(server, None, Extent::Transaction);
    format!("BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL statement_timeout = 0; {shield}")
}

/// Also has the server find out when this host is gone, where there is a lock to free then and TCP between.
pub fn shield(server: &Server, request: Option<&Request>, extent: Extent) -> String {
    let more: &[Shielded] = match extent {
        Extent::Session => &SHIELDED_BETWEEN_TRANSACTIONS,
        Extent::Transaction => &SHIELDED_IN_TRANSACTION,
    };
    let shielded = SHIELDED
        .iter()
        .chain(more)
        .filter(|(_, _, since)| server.major_version >= *since)
        .map(|(setting, value, _)| set_config(setting, value, extent));
    let keepalive = request
        .filter(|_| server.over_tcp)
        .map(|request| request.lease.at_the_server().settings());
    let keepalive = keepalive.into_iter().flatten();
    let keepalive =
        keepalive.map(|(setting, value)| set_config(setting, &value.to_string(), extent));
    let settings: Vec<String> = shielded.chain(keepalive).collect();
    format!("SELECT {}", settings.join(", "))
}

pub fn set_config(setting: &str, value: &str, extent: Extent) -> String {
    let is_local = match extent {
        Extent::Session => "false",
        Extent::Transaction => "true",
    };
    format!("pg_catalog.set_config('{setting}', '{value}', {is_local})")
}
