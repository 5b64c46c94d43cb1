//! From nothing to a held lock: connect, try, and wait between tries as long as the patience lasts.

mod blockers;
mod line;
mod turn;

use std::ops::ControlFlow;
use std::pin::pin;
use std::time::Duration;

use nix::sys::signal::Signal;
use tokio::time::{Instant, sleep, sleep_until, timeout, timeout_at};

pub use self::blockers::Blockers;
use self::blockers::waits_for_itself;
use crate::connection::Settings;
use crate::exit::Fault;
use crate::identity::Stage;
use crate::report::Reporter;
use crate::session::{self, Attempt, HeldLock, Request, Scope, Session, Wait};
use crate::signals::Signals;

/// The pause between two tries: short at first for short jobs, then one statement a second for each waiter.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// Each pause is between 1 - JITTER and 1 + JITTER of what it should be, so that waiters that started together
/// do not try together.
const JITTER: f64 = 0.25;

/// The least and half of the most between two logins at a server that has no room.
const FULL_PAUSE: Duration = Duration::from_secs(1);

/// How long a server that was connected to may take to answer a single try.
const ANSWER_DEADLINE: Duration = Duration::from_secs(10);
/// The same for the try at the end of the patience.
const LAST_ANSWER_DEADLINE: Duration = Duration::from_secs(1);

/// How long it may take to find out how a pooler pools: some statements, each of which may have to wait for a
/// backend.
const POOLER_DEADLINE: Duration = Duration::from_secs(30);
/// What a session is called that looks at a pooler.
const LOOKING: &str = "pglock pooler check";
/// What a session is called that fetches a fencing token.
const FETCHING: &str = "pglock fencing token";
/// How long a signal may be kept waiting for the answer to a try; answers take a millisecond.
const PARTING_DEADLINE: Duration = Duration::from_millis(500);

/// How long to wait for connection and lock together.
#[derive(Clone, Copy, Debug)]
pub enum Patience {
    None,
    Until(Instant),
    Unlimited,
}

/// What the patience came to.
pub enum Acquired {
    Held(HeldLock),
    /// Somebody else holds the lock, and as many others wait as may.
    QueueFull {
        session: Session,
        waiting: u32,
    },
    /// Somebody else holds the lock, and so many others were ahead in the queue, if it was joined.
    NotObtained {
        session: Session,
        ahead: Option<u32>,
    },
    /// This signal ended the wait.
    Interrupted(Signal),
}

/// Connects and tries until the lock is held, the patience is over, or a signal comes.
///
/// A server that has no room is asked again; that costs it as much as a login, so not often.
pub async fn acquire(
    settings: &Settings,
    request: &Request,
    patience: Patience,
    signals: &mut Signals,
    report: &Reporter,
) -> anyhow::Result<Acquired> {
    let mut is_told = false;
    loop {
        let full = match acquire_once(settings, request, patience, signals, report).await {
            Err(error) if Fault::Full.classifies(&error) && patience.is_some() => error,
            Ok(Acquired::Held(held)) if request.wants_token && held.token().is_none() => {
                return with_token(held, settings, signals).await;
            }
            acquired => return acquired,
        };
        if !std::mem::replace(&mut is_told, true) {
            report.notice(|| format!("{full}: trying again until there is room"));
        }
        tokio::select! {
            biased;
            signal = signals.next_ending() => return Ok(Acquired::Interrupted(signal?)),
            () = patience.over() => return Err(full),
            () = sleep(FULL_PAUSE.mul_f64(1.0 + fastrand::f64())) => {}
        }
    }
}

/// Fetches the token of a lock that could not be granted with it.
async fn with_token(
    mut held: HeldLock,
    settings: &Settings,
    signals: &mut Signals,
) -> anyhow::Result<Acquired> {
    let taken = timeout(ANSWER_DEADLINE, held.take_token(settings, FETCHING));
    let taken = tokio::select! {
        biased;
        signal = signals.next_ending() => {
            let _ = timeout(PARTING_DEADLINE, held.release()).await;
            return Ok(Acquired::Interrupted(signal?));
        }
        taken = taken => taken,
    };
    let refused = match taken {
        Ok(Ok(())) => return Ok(Acquired::Held(held)),
        Ok(Err(error)) => error,
        Err(_) => Fault::CannotConnect.error("the server does not answer"),
    };
    let _ = timeout(PARTING_DEADLINE, held.release()).await;
    Err(refused.context("no fencing token"))
}

async fn acquire_once(
    settings: &Settings,
    request: &Request,
    patience: Patience,
    signals: &mut Signals,
    report: &Reporter,
) -> anyhow::Result<Acquired> {
    let mut session = tokio::select! {
        biased;
        signal = signals.next_ending() => return Ok(Acquired::Interrupted(signal?)),
        session = patience.connect(settings, request) => session?,
    };
    report.detail(|| {
        format!(
            "connected to database {} as {}",
            settings.database, settings.user
        )
    });
    let mut wait = patience.first_wait(request.scope);
    let mut pause = FIRST_PAUSE;
    loop {
        let (busy, next) = match patience
            .try_unless_interrupted(session, request, &wait, signals)
            .await?
        {
            ControlFlow::Continue(Attempt::Held(held)) => {
                report.detail(|| format!("holding the lock, backend {}", held.backend_pid()));
                return Ok(Acquired::Held(held));
            }
            ControlFlow::Continue(Attempt::Elsewhere(mut pooled)) => {
                report.detail(|| "a pooler stands between: looking at how it pools".to_owned());
                tokio::select! {
                    biased;
                    signal = signals.next_ending() => return Ok(Acquired::Interrupted(signal?)),
                    accepted = patience.accept_pooler(&mut pooled, settings) => accepted?,
                }
                session = pooled;
                continue;
            }
            ControlFlow::Continue(Attempt::NoTransaction(said)) => {
                tokio::select! {
                    biased;
                    signal = signals.next_ending() => return Ok(Acquired::Interrupted(signal?)),
                    explained = patience.explain_refusal(settings, &said) => return Err(explained),
                }
            }
            ControlFlow::Continue(Attempt::Waits { mut session, since }) => {
                if waits_for_itself(&mut session, request).await? {
                    let ahead = None;
                    return Ok(Acquired::NotObtained { session, ahead });
                }
                return line::wait(session, since, settings, request, patience, signals, report)
                    .await;
            }
            ControlFlow::Continue(Attempt::Busy { mut session, next }) => {
                let begins = pause == FIRST_PAUSE && patience.is_some() && next != Wait::Begins;
                if begins && waits_for_itself(&mut session, request).await? {
                    let ahead = None;
                    return Ok(Acquired::NotObtained { session, ahead });
                }
                (session, next)
            }
            ControlFlow::Break(signal) => return Ok(Acquired::Interrupted(signal)),
        };
        wait = next;
        if wait == Wait::Begins {
            session = busy;
            continue;
        }
        if pause == FIRST_PAUSE && patience.is_some() {
            report.detail(|| "somebody else holds the lock: waiting".to_owned());
        }
        tokio::select! {
            biased;
            signal = signals.next_ending() => {
                busy.close().await;
                return Ok(Acquired::Interrupted(signal?));
            }
            more = patience.wait(pause) => if !more {
                return Ok(Acquired::NotObtained { session: busy, ahead: None });
            },
        }
        pause = (pause * 2).min(LONGEST_PAUSE);
        session = busy;
    }
}

/// Ends a session in the middle of a try: a connection that is dropped while the server works is a fatal error
/// in its log.
async fn part(attempt: impl Future<Output = anyhow::Result<Attempt>>) {
    match attempt.await {
        Ok(Attempt::Held(held)) => drop(held.release().await),
        Ok(
            Attempt::Busy { session, .. }
            | Attempt::Waits { session, .. }
            | Attempt::Elsewhere(session),
        ) => session.close().await,
        Ok(Attempt::NoTransaction(_)) | Err(_) => {}
    }
}

impl Patience {
    /// The same, beginning later.
    pub fn postponed_by(self, delay: Duration) -> Self {
        match self {
            Self::Until(deadline) => Self::Until(deadline + delay),
            Self::None | Self::Unlimited => self,
        }
    }

    fn first_wait(self, scope: Scope) -> Wait {
        match (self, scope) {
            (Self::None, _) | (_, Scope::Transaction) => Wait::Unannounced,
            (Self::Until(_) | Self::Unlimited, Scope::Session) => Wait::NotYet,
        }
    }

    async fn connect(self, settings: &Settings, request: &Request) -> anyhow::Result<Session> {
        let application_name = request.identity.application_name(Stage::Holding(0));
        let opened = Session::open(settings, &application_name);
        let Self::Until(deadline) = self else {
            return opened.await;
        };
        let opened = timeout_at(deadline, opened).await;
        opened.unwrap_or_else(|_| {
            Err(Fault::CannotConnect.error("cannot connect: the time given by --timeout is over"))
        })
    }

    async fn accept_pooler(self, session: &mut Session, settings: &Settings) -> anyhow::Result<()> {
        let accepted = session.accept_pooler(settings, LOOKING);
        let accepted = timeout(self.pooler_deadline(), accepted).await;
        accepted.unwrap_or_else(|_| Err(Fault::CannotConnect.error("the pooler does not answer")))
    }

    async fn explain_refusal(self, settings: &Settings, said: &str) -> anyhow::Error {
        let explained = session::explain_refusal(settings, LOOKING, said);
        let explained = timeout(self.pooler_deadline(), explained).await;
        explained.unwrap_or_else(|_| Fault::CannotConnect.error(said))
    }

    fn pooler_deadline(self) -> Duration {
        match self {
            Self::None | Self::Unlimited => POOLER_DEADLINE,
            Self::Until(deadline) => left_until(deadline).max(LAST_ANSWER_DEADLINE),
        }
    }

    async fn try_unless_interrupted(
        self,
        session: Session,
        request: &Request,
        wait: &Wait,
        signals: &mut Signals,
    ) -> anyhow::Result<ControlFlow<Signal, Attempt>> {
        let mut attempt = pin!(self.try_lock(session, request, wait));
        tokio::select! {
            biased;
            signal = signals.next_ending() => {
                let _ = timeout(PARTING_DEADLINE, part(attempt)).await;
                Ok(ControlFlow::Break(signal?))
            }
            attempt = &mut attempt => Ok(ControlFlow::Continue(attempt?)),
        }
    }

    /// One try; a server that does not answer is given up, except where the wait is unlimited.
    async fn try_lock(
        self,
        session: Session,
        request: &Request,
        wait: &Wait,
    ) -> anyhow::Result<Attempt> {
        let answer = session.try_lock(request, wait);
        let limit = match self {
            Self::Unlimited => return answer.await,
            Self::None => ANSWER_DEADLINE,
            Self::Until(deadline) => left_until(deadline).max(LAST_ANSWER_DEADLINE),
        };
        let answer = timeout(limit, answer).await;
        answer.unwrap_or_else(|_| Err(Fault::CannotConnect.error("the server does not answer")))
    }

    fn is_some(self) -> bool {
        !matches!(self, Self::None)
    }

    /// Returns when it is over.
    async fn over(self) {
        match self {
            Self::None => {}
            Self::Until(deadline) => sleep_until(deadline).await,
            Self::Unlimited => std::future::pending().await,
        }
    }

    /// Pauses between two tries; `false` when there is no time for another.
    async fn wait(self, pause: Duration) -> bool {
        let pause = pause.mul_f64(1.0 - JITTER + 2.0 * JITTER * fastrand::f64());
        match self {
            Self::None => false,
            Self::Unlimited => {
                sleep(pause).await;
                true
            }
            Self::Until(deadline) => {
                let left = left_until(deadline);
                sleep(pause.min(left)).await;
                !left.is_zero()
            }
        }
    }
}

fn left_until(deadline: Instant) -> Duration {
    deadline.saturating_duration_since(Instant::now())
}
