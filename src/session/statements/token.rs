//! The fencing token: a number that rises with every acquisition in a cluster.
//!
//! It is the place of a message in the write-ahead log, behind the log's timeline: the log grows with every message,
//! keeps what was flushed across a crash, and begins a higher timeline when a standby is promoted (PostgreSQL
//! documentation, 9.28.6 "Replication Management Functions" and 26.3.5 "Timelines").

use std::fmt;

use anyhow::Context as _;

/// The SQL for a token as [`Token::read`] reads it. The message is flushed when the transaction ends, whatever the
/// role's default; no standby need have it, for a promoted one begins a higher timeline.
pub const EMIT: &str = "pg_catalog.substr(pg_catalog.pg_walfile_name(pg_catalog.pg_current_wal_lsn()), 1, 8), '/', \
     pg_catalog.pg_logical_emit_message(true, 'pglock'::pg_catalog.text, ''::pg_catalog.text), \
     pg_catalog.left(pg_catalog.set_config('synchronous_commit', 'local', true), 0)";

/// Timeline and place in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Token {
    timeline: u32,
    place: u64,
}

impl Token {
    /// Reads `TIMELINE/HIGH/LOW`, in hexadecimal digits.
    pub fn read(said: &str) -> anyhow::Result<Self> {
        let mut parts = said.split('/').map(|part| u32::from_str_radix(part, 16));
        let mut part = || parts.next().context("a part of the token is missing");
        let (timeline, high, low) = (part()??, part()??, part()??);
        Ok(Self {
            timeline,
            place: u64::from(high) << 32 | u64::from(low),
        })
    }
}

/// 24 hexadecimal digits: as text they sort as the tokens do, in every collation.
impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08X}{:016X}", self.timeline, self.place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_sort_as_text() {
        let tokens = [
            "00000001/0/15D8A30",
            "00000001/A/1",
            "00000001/10/0",
            "0000000B/0/1",
        ];
        let tokens = tokens.map(|said| Token::read(said).expect("a token"));
        let shown = tokens.map(|token| token.to_string());
        assert_eq!(shown[0], "00000001000000000".to_owned() + "15D8A30");
        assert!(tokens.is_sorted() && shown.is_sorted());
        assert!(shown.iter().all(|token| token.len() == 24));
    }
}
