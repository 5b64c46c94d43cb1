//! `target_session_attrs`: whether a server that let us in is of the wanted kind.

use tokio_postgres::SimpleQueryMessage;

use super::negotiation::Opened;
use super::refusal::{Refusal, describe};
use super::settings::TargetSession;

/// Passes the connection on if it is what `wanted` says; asks the server, in one round trip, unless anything
/// will do.
pub async fn check(wanted: TargetSession, mut opened: Opened) -> Result<Opened, Refusal> {
    if wanted == TargetSession::Any {
        return Ok(opened);
    }
    let answer = tokio::select! {
        answer = opened.client.simple_query(QUESTION) => answer,
        ended = &mut opened.link => {
            let cause = ended.map_or_else(|error| describe(&error), |()| "closed".to_owned());
            return Err(Refusal::of(&cause));
        }
    };
    let answer = answer.map_err(|error| Refusal::of(&describe(&error)))?;
    match complaint(wanted, &Kind::read(&answer)) {
        None => Ok(opened),
        Some(complaint) => Err(Refusal::of(complaint)),
    }
}

const QUESTION: &str = "SELECT pg_catalog.pg_is_in_recovery() AS standby, \
     pg_catalog.current_setting('transaction_read_only') AS read_only";

struct Kind {
    is_standby: bool,
    is_read_only: bool,
}

impl Kind {
    fn read(answer: &[SimpleQueryMessage]) -> Self {
        let row = answer.iter().find_map(|message| match message {
            SimpleQueryMessage::Row(row) => Some(row),
            _ => None,
        });
        let text = |name| row.and_then(|row| row.try_get(name).ok().flatten());
        Self {
            is_standby: text("standby") == Some("t"),
            is_read_only: text("read_only") == Some("on"),
        }
    }
}

/// Why this kind of server is not wanted, in libpq's words.
fn complaint(wanted: TargetSession, kind: &Kind) -> Option<&'static str> {
    match wanted {
        TargetSession::ReadWrite if kind.is_standby || kind.is_read_only => {
            Some("session is read-only")
        }
        TargetSession::ReadOnly if !kind.is_standby && !kind.is_read_only => {
            Some("session is not read-only")
        }
        TargetSession::Primary if kind.is_standby => Some("server is in hot standby mode"),
        TargetSession::Standby | TargetSession::PreferStandby if !kind.is_standby => {
            Some("server is not in hot standby mode")
        }
        TargetSession::Any
        | TargetSession::ReadWrite
        | TargetSession::ReadOnly
        | TargetSession::Primary
        | TargetSession::Standby
        | TargetSession::PreferStandby => None,
    }
}
