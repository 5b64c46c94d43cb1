//! A session that owns its lock: watched by heartbeats, and released once.

use std::os::fd::{AsFd as _, BorrowedFd};
use std::time::Duration;

use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_postgres::SimpleQueryMessage;
use tokio_postgres::error::SqlState;

use super::alarm::sleep_in_one;
use super::attention::Attention;
use super::statements::{self, Asking, Grant, Keepalive, Proof, Token, queue};
use super::{Request, Session, Wait};
use crate::connection::{self, Settings};
use crate::key::LockKey;
use crate::lease::Lease;

/// How long the release may take before the session counts as lost.
const RELEASE_DEADLINE: Duration = Duration::from_secs(10);

/// How long it may take to tell those who wait, once the lock is free.
const WAKE_DEADLINE: Duration = Duration::from_secs(1);

/// It was held until the server answered, or freed it.
enum Held {
    Unawaited,
    /// Somebody asks for it.
    Asked,
    /// Others wait for it.
    Awaited,
}

/// A session that owns a lock. There is one way out: [`HeldLock::release`].
pub struct HeldLock {
    session: Session,
    backend_pid: i32,
    keys: Vec<LockKey>,
    slot: u32,
    token: Option<Token>,
    lease: Lease,
    attention: Box<Attention>,
    release: String,
    wake: String,
    /// What is left to be done once the command runs.
    settle: Option<String>,
    /// When the statement was sent whose answer last proved that the lock is held.
    proven: Instant,
}

impl HeldLock {
    /// For a lock that was granted to a statement sent at `sent`.
    pub(super) fn new(
        session: Session,
        request: &Request,
        wait: &Wait,
        grant: &Grant,
        sent: Instant,
    ) -> Self {
        if session.server.over_tcp {
            // Where the kernel does not take them, the heartbeats still find out.
            let _ = session
                .tcp
                .or(request.lease.at_this_end())
                .apply(&session.socket);
        }
        let comment = statements::comment(request, grant, &session.server);
        Self {
            backend_pid: grant.backend_pid,
            keys: grant.keys(request),
            slot: grant.choice,
            token: grant.token,
            lease: request.lease,
            attention: Box::new(Attention::of(request, grant, &session.server)),
            release: statements::release(request, grant, &session.server),
            wake: queue::wake(request),
            settle: queue::settle(request, wait, &comment),
            proven: sent,
            session,
        }
    }

    pub fn backend_pid(&self) -> i32 {
        self.backend_pid
    }

    /// All that is held.
    pub fn keys(&self) -> &[LockKey] {
        &self.keys
    }

    /// Which slot of the lock was free, lowest first; 0 where there are none.
    pub fn slot(&self) -> u32 {
        self.slot
    }

    /// The fencing token, if it was asked for.
    pub fn token(&self) -> Option<Token> {
        self.token
    }

    /// Has a session of its own take the token: in the transaction that holds the lock it would hold back vacuum.
    pub async fn take_token(
        &mut self,
        settings: &Settings,
        application_name: &str,
    ) -> anyhow::Result<()> {
        let mut session = self
            .session
            .open_another(settings, application_name)
            .await?;
        self.token = Some(session.token().await?);
        session.close().await;
        Ok(())
    }

    /// The socket of the session: as long as anybody has it open, the server knows of no end.
    pub fn socket(&self) -> BorrowedFd<'_> {
        self.session.socket.as_fd()
    }

    /// Those who ask for the lock from now on, each once, as the heartbeats find them.
    pub fn asking(&mut self) -> UnboundedReceiver<Asking> {
        self.attention.tell()
    }

    /// Has the server prove once, as at every heartbeat, that the lock is still held; why it could not.
    pub async fn prove(&mut self) -> Result<(), String> {
        let limit = self.lease.heartbeat_deadline();
        timeout(limit, self.beat())
            .await
            .unwrap_or_else(|_| Err(no_answer_within(limit)))
            .map(drop)
    }

    /// What the server's kernel does in this session to find out whether this host is gone.
    pub async fn keepalive(&mut self) -> anyhow::Result<Keepalive> {
        let rows = self.session.send(&statements::keepalive()).await?;
        let wanted = self.lease.at_the_server().settings();
        Ok(statements::read_keepalive(&rows, &wanted))
    }

    /// Waits for the end of the session, and has it prove at every heartbeat that it still holds the lock; what
    /// ended that.
    ///
    /// When it is dropped in the middle of a heartbeat, the answer comes and is not read. If that one failed, in a transaction the next
    /// statement fails as well, and the lock counts as lost.
    pub async fn lost(&mut self) -> String {
        if let Some(settle) = self.settle.take() {
            let limit = self.lease.heartbeat_deadline();
            match timeout(limit, self.session.ask(&settle, None)).await {
                // An error shows at the next heartbeat.
                Ok(_) => {}
                Err(_) => return no_answer_within(limit),
            }
        }
        loop {
            let next = self.proven + self.lease.heartbeat_interval();
            tokio::select! {
                biased;
                cause = self.session.ended() => return cause,
                () = sleep_in_one(next) => {}
            }
            let sent = Instant::now();
            let limit = self.lease.heartbeat_deadline();
            match timeout_at(sent + limit, self.beat()).await {
                Ok(Ok(held)) => {
                    self.proven = sent;
                    if matches!(held, Held::Asked) {
                        // Who asks may be anybody, and must not end the lock by that: the next heartbeat shows what is
                        // wrong, if anything is.
                        let _ = timeout(limit, self.attention.hear(&self.session)).await;
                    }
                }
                Ok(Err(cause)) => return cause,
                Err(_) => return no_answer_within(limit),
            }
        }
    }

    async fn beat(&mut self) -> Result<Held, String> {
        let answer = self.attention.beat(&self.session).await;
        judge(&mut self.session, answer).await
    }

    /// Frees the lock and waits until the server has confirmed it.
    ///
    /// The error says why it cannot be known that the lock was still held.
    pub async fn release(self) -> Result<(), String> {
        self.free().await?.close().await;
        Ok(())
    }

    /// The same, and keeps the session.
    pub async fn free(mut self) -> Result<Session, String> {
        let released = async {
            match self.session.ask(&self.release, None).await {
                // It was held, and is free; a server without room cannot tell who waits.
                Err(error) if error.code().is_some_and(connection::is_full) => Ok(Held::Awaited),
                answer => judge(&mut self.session, answer).await,
            }
        };
        match timeout(RELEASE_DEADLINE, released).await {
            Ok(Ok(Held::Unawaited | Held::Asked)) => Ok(self.session),
            Ok(Ok(Held::Awaited)) => {
                // Those who wait look for themselves if this fails.
                let _ = timeout(WAKE_DEADLINE, self.session.ask(&self.wake, None)).await;
                Ok(self.session)
            }
            Ok(Err(cause)) => Err(cause),
            Err(_) => {
                let limit = RELEASE_DEADLINE.as_secs();
                Err(format!("no answer to the unlock within {limit} s"))
            }
        }
    }
}

const NO_LONGER_HELD: &str = "the server says that this session no longer held it";

fn no_answer_within(limit: Duration) -> String {
    let limit = humantime::format_duration(limit);
    format!("no answer to a heartbeat within {limit}")
}

/// Whether the lock was held, by the server's answer; why it was not, or cannot be known to have been.
async fn judge(
    session: &mut Session,
    answer: Result<Vec<SimpleQueryMessage>, tokio_postgres::Error>,
) -> Result<Held, String> {
    match answer.map(Proof::read) {
        Ok(Proof::Held) => Ok(Held::Unawaited),
        Ok(Proof::Asked) => Ok(Held::Asked),
        Ok(Proof::Awaited) => Ok(Held::Awaited),
        Ok(Proof::Elsewhere) => Err(
            "a pooler gave the session another backend (the lock stays on the former until the pooler closes that)"
                .to_owned(),
        ),
        Ok(Proof::Gone) => Err(NO_LONGER_HELD.to_owned()),
        // Neither can it have a savepoint.
        Err(error) if error.code() == Some(&SqlState::NO_ACTIVE_SQL_TRANSACTION) => {
            Err(NO_LONGER_HELD.to_owned())
        }
        Err(error) if session.is_lost(&error) => Err(session.ended_by(&error).await),
        Err(error) => Err(connection::describe(&error)),
    }
}
