//! One try for a lock: what is asked for, how, and what it came to.

use serde::Serialize;
use tokio::time::Instant;

use super::statements::{self, Answer};
use super::{HeldLock, Line, Session};
use crate::connection;
use crate::exit::Fault;
use crate::holding::Holding;
use crate::identity::Identity;
use crate::key::{LockKey, Mode};
use crate::lease::Lease;

/// A lock to be taken, and who takes it.
#[derive(Debug)]
pub struct Request {
    pub identity: Identity,
    pub mode: Mode,
    pub scope: Scope,
    pub lease: Lease,
    /// How many others may wait for it already.
    pub most_waiters: Option<u32>,
    /// What the pglocks hold that run this process.
    pub above: Vec<Holding>,
    /// Whether a fencing token is wanted with it.
    pub wants_token: bool,
}

impl Request {
    /// The keys in whose queues whoever makes this request waits: whoever is behind a pglock that runs it must not wait
    /// for those who wait for that one, where the two share the lock.
    pub fn queued(&self) -> Vec<LockKey> {
        let mut keys = self.identity.claim.keys();
        let is_shared_above = |key: &LockKey| self.above.iter().any(|above| above.key == *key);
        keys.retain(|key| self.mode == Mode::Exclusive || !is_shared_above(key));
        keys
    }
}

/// What of the server's owns the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    Session,
    /// One transaction, open for as long as the lock is held: a transaction pooler leaves it its backend.
    Transaction,
}

/// Whether, and since when, a session waits for its lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wait {
    /// A failed try is the end, or tells nobody that there will be another: what a session without a backend of
    /// its own says would be said for others.
    Unannounced,
    /// The first try of a session that will wait if it must.
    NotYet,
    /// The try that begins the wait: if it fails, everybody can see that this session waits.
    Begins,
    /// The turn of one who waits in line.
    InLine(Line),
}

/// What a try came to.
pub enum Attempt {
    Held(HeldLock),
    /// Another backend answered than the one expected; nothing was taken.
    Elsewhere(Session),
    /// A pooler refused the transaction, in these words, or its server did.
    NoTransaction(String),
    /// Somebody else holds it; what the next try is.
    Busy {
        session: Session,
        next: Wait,
    },
    /// The same, and everybody can see that this session waits since then.
    Waits {
        session: Session,
        since: i64,
    },
}

impl Session {
    /// Tries once to take the lock, in one round trip, and proves that it is really owned.
    ///
    /// The same message shields the session from timeouts that the role or the database sets by default.
    /// Never waits in the server: a session blocked there would hold a snapshot.
    /// Errors: [`Fault::Unfit`] when the server is a standby or its lock functions are not PostgreSQL's.
    pub async fn try_lock(mut self, request: &Request, wait: &Wait) -> anyhow::Result<Attempt> {
        let sql = statements::try_lock(request, wait, self.backend_pid, &self.server);
        let sent = Instant::now();
        let before_again = match (request.scope, wait) {
            (Scope::Transaction, _) => statements::GIVE_UP.to_owned(),
            (Scope::Session, Wait::InLine(_)) => statements::put_back(request),
            (Scope::Session, Wait::Unannounced | Wait::NotYet | Wait::Begins) => {
                statements::FORGET.to_owned()
            }
        };
        let answer = match self.ask(&sql, Some(&before_again)).await {
            Ok(messages) => Answer::read(messages)?,
            Err(error) if request.scope.is_refused_by(&error) => {
                return Ok(Attempt::NoTransaction(connection::describe(&error)));
            }
            Err(error) => return Err(self.explain(error).await),
        };
        if request.scope == Scope::Transaction && !matches!(answer, Answer::Granted(_)) {
            self.send(statements::GIVE_UP).await?;
        }
        match answer {
            Answer::Granted(grant) => {
                let held = HeldLock::new(self, request, wait, &grant, sent);
                Ok(Attempt::Held(held))
            }
            Answer::Elsewhere => Ok(Attempt::Elsewhere(self)),
            Answer::Busy => Ok(Attempt::Busy {
                session: self,
                next: match wait {
                    Wait::NotYet => Wait::Begins,
                    wait => wait.clone(),
                },
            }),
            Answer::Waiting { since } => Ok(Attempt::Waits {
                session: self,
                since,
            }),
            Answer::Standby => Err(Fault::Unfit.error(
                "this server is a standby, whose locks the primary does not see; connect to the primary",
            )),
            Answer::LookAlike => Err(Fault::Unfit.error(
                "this server's advisory locks are not PostgreSQL's own and may not be real",
            )),
        }
    }
}
