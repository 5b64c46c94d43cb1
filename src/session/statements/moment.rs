//! A time on the server's clock.

/// As the server said it.
#[derive(Clone, Debug)]
pub struct Moment {
    /// As PostgreSQL sends it: microseconds since 2000, in hexadecimal digits.
    pub digits: String,
    /// Microseconds since 1970.
    pub since_1970: i64,
}

/// From 1970 to 2000, PostgreSQL's epoch.
const EPOCH: i64 = 946_684_800_000_000;

impl Moment {
    pub fn read(digits: &str) -> anyhow::Result<Self> {
        Ok(Self {
            digits: digits.to_owned(),
            since_1970: i64::from_str_radix(digits, 16)?.saturating_add(EPOCH),
        })
    }
}

/// The SQL for a time as [`Moment`] reads it: not subject to any setting, and cheap in a fresh session.
pub fn moment(function: &str) -> String {
    format!("pg_catalog.encode(pg_catalog.timestamptz_send(pg_catalog.{function}()), 'hex')")
}
