//! What the server's kernel does to find out whether this host is gone.

use serde::Serialize;
use tokio_postgres::SimpleQueryRow;

/// The settings of one session as they are in force, in the server's units; 0 on a Unix socket.
#[derive(Debug, Serialize)]
pub struct Keepalive {
    /// Whether they are what the lease asks for.
    #[serde(skip)]
    pub is_as_wanted: bool,
    pub tcp_keepalives_idle: Option<u64>,
    pub tcp_keepalives_interval: Option<u64>,
    pub tcp_keepalives_count: Option<u64>,
    pub tcp_user_timeout: Option<u64>,
}

const SETTINGS: [&str; 4] = [
    "tcp_keepalives_idle",
    "tcp_keepalives_interval",
    "tcp_keepalives_count",
    "tcp_user_timeout",
];

/// The question, which fails nowhere: it is asked in the transaction that may hold the lock.
pub fn keepalive() -> String {
    let columns = SETTINGS
        .map(|setting| format!("pg_catalog.current_setting('{setting}', true) AS {setting}"));
    format!("SELECT {}", columns.join(", "))
}

/// The answer, beside what was set.
pub fn read_keepalive(rows: &[SimpleQueryRow], wanted: &[(&'static str, u64)]) -> Keepalive {
    let text = |setting| rows.first()?.try_get(setting).ok().flatten();
    let number = |setting| text(setting)?.parse().ok();
    let [idle, interval, count, user_timeout] = SETTINGS.map(number);
    Keepalive {
        is_as_wanted: wanted
            .iter()
            .all(|(setting, value)| number(setting) == Some(*value)),
        tcp_keepalives_idle: idle,
        tcp_keepalives_interval: interval,
        tcp_keepalives_count: count,
        tcp_user_timeout: user_timeout,
    }
}
