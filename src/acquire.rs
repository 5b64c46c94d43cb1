//! From nothing to a held lock: connect, try, and wait between tries as long as the patience lasts.

mod blockers;
mod line;
mod patience;
mod turn;

use std::ops::ControlFlow;
use std::pin::pin;
use std::time::Duration;

use nix::sys::signal::Signal;
use tokio::time::{sleep, timeout};

pub use self::blockers::Blockers;
use self::blockers::waits_for_itself;
pub use self::patience::Patience;
use crate::connection::Settings;
use crate::exit::Fault;
use crate::report::Reporter;
use crate::session::{Attempt, HeldLock, Request, Session, Wait};
use crate::signals::Signals;

/// The pause between two tries: short at first for short jobs, then one statement a second for each waiter.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// Each pause is between 1 - JITTER and 1 + JITTER of what it should be, so that waiters that started together
/// do not try together.
const JITTER: f64 = 0.25;

/// The least and half of the most between two logins at a server that has no room.
const FULL_PAUSE: Duration = Duration::from_secs(1);

/// What a session is called that fetches a fencing token.
const FETCHING: &str = "pglock fencing token";
/// How long a signal may be kept waiting for the answer to a try; answers take a millisecond.
const PARTING_DEADLINE: Duration = Duration::from_millis(500);

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

/// Who asks for a lock: what and where, how long, and who may end that.
pub struct Applicant<'a> {
    pub settings: &'a Settings,
    pub request: &'a Request,
    pub patience: Patience,
    pub signals: &'a mut Signals,
    pub report: &'a Reporter,
}

/// Why a wait ends without the lock.
enum Stop {
    Signal(Signal),
    PatienceOver,
}

impl Applicant<'_> {
    /// Connects and tries until the lock is held, the patience is over, or a signal comes.
    ///
    /// A server that has no room is asked again; that costs it as much as a login, so not often.
    pub async fn acquire(mut self) -> anyhow::Result<Acquired> {
        let mut is_told = false;
        loop {
            let acquired = match self.acquire_once().await {
                Ok(Acquired::Held(held)) => self.with_token(held).await,
                acquired => acquired,
            };
            let full = match acquired {
                Err(error) if Fault::Full.classifies(&error) && self.patience.is_some() => error,
                acquired => return acquired,
            };
            if !std::mem::replace(&mut is_told, true) {
                self.report
                    .notice(|| format!("{full}: trying again until there is room"));
            }
            let pause = async {
                sleep(FULL_PAUSE.mul_f64(1.0 + fastrand::f64())).await;
                Ok(())
            };
            match self.unless_stopped(pause).await? {
                ControlFlow::Continue(()) => {}
                ControlFlow::Break(Stop::Signal(signal)) => {
                    return Ok(Acquired::Interrupted(signal));
                }
                ControlFlow::Break(Stop::PatienceOver) => return Err(full),
            }
        }
    }

    /// Fetches the token that was asked for, if the lock could not be granted with it, and has the lock proved after
    /// that: whoever has it next has a higher one.
    async fn with_token(&mut self, mut held: HeldLock) -> anyhow::Result<Acquired> {
        if !self.request.wants_token || held.token().is_some() {
            return Ok(Acquired::Held(held));
        }
        let taken = held.take_token(self.settings, FETCHING);
        let taken = timeout(self.patience.token_deadline(), taken);
        let taken = tokio::select! {
            biased;
            signal = self.signals.next_ending() => {
                let _ = timeout(PARTING_DEADLINE, held.release()).await;
                return Ok(Acquired::Interrupted(signal?));
            }
            taken = taken => taken,
        };
        let failed = match taken {
            Ok(Ok(())) => match held.prove().await {
                Ok(()) => return Ok(Acquired::Held(held)),
                Err(cause) => {
                    let lost = format!("the lock was lost before anything was run: {cause}");
                    return Err(Fault::CannotConnect.error(lost));
                }
            },
            Ok(Err(error)) => error,
            Err(_) => Fault::CannotConnect.error("the server does not answer"),
        };
        let _ = timeout(PARTING_DEADLINE, held.release()).await;
        Err(failed.context("no fencing token"))
    }

    async fn acquire_once(&mut self) -> anyhow::Result<Acquired> {
        let (settings, request, patience) = (self.settings, self.request, self.patience);
        let opened = patience.connect(settings, request);
        let mut session = match self.unless_interrupted(opened).await? {
            ControlFlow::Continue(session) => session,
            ControlFlow::Break(signal) => return Ok(Acquired::Interrupted(signal)),
        };
        self.report.detail(|| {
            let (database, user) = (&settings.database, &settings.user);
            format!("connected to database {database} as {user}")
        });
        let mut wait = patience.first_wait(request);
        let mut pause = FIRST_PAUSE;
        loop {
            let next;
            (session, next) = match self.try_lock(session, &wait).await? {
                ControlFlow::Continue(Attempt::Held(held)) => {
                    self.report
                        .detail(|| format!("holding the lock, backend {}", held.backend_pid()));
                    return Ok(Acquired::Held(held));
                }
                ControlFlow::Continue(Attempt::Elsewhere(mut pooled)) => {
                    self.report
                        .detail(|| "a pooler stands between: looking at how it pools".to_owned());
                    let accepted = patience.accept_pooler(&mut pooled, settings);
                    if let ControlFlow::Break(signal) = self.unless_interrupted(accepted).await? {
                        return Ok(Acquired::Interrupted(signal));
                    }
                    session = pooled;
                    continue;
                }
                ControlFlow::Continue(Attempt::NoTransaction(said)) => {
                    return self.explained(&said).await;
                }
                ControlFlow::Continue(Attempt::Waits { session, since }) => {
                    return match self.unless_for_itself(session).await? {
                        ControlFlow::Continue(session) => {
                            // Most runs need no room for it.
                            Box::pin(self.stand_in_line(session, since)).await
                        }
                        ControlFlow::Break(acquired) => Ok(acquired),
                    };
                }
                ControlFlow::Continue(Attempt::Busy { session, next }) => (session, next),
                ControlFlow::Break(signal) => return Ok(Acquired::Interrupted(signal)),
            };
            wait = next;
            if wait == Wait::Begins {
                continue;
            }
            if pause == FIRST_PAUSE && patience.is_some() {
                self.report
                    .detail(|| "somebody else holds the lock: waiting".to_owned());
                session = match self.unless_for_itself(session).await? {
                    ControlFlow::Continue(session) => session,
                    ControlFlow::Break(acquired) => return Ok(acquired),
                };
            }
            let waited = async { Ok(patience.wait(pause).await) };
            match self.unless_interrupted(waited).await? {
                ControlFlow::Continue(true) => {}
                ControlFlow::Continue(false) => {
                    return Ok(Acquired::NotObtained {
                        session,
                        ahead: None,
                    });
                }
                ControlFlow::Break(signal) => {
                    session.close().await;
                    return Ok(Acquired::Interrupted(signal));
                }
            }
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// One try.
    async fn try_lock(
        &mut self,
        session: Session,
        wait: &Wait,
    ) -> anyhow::Result<ControlFlow<Signal, Attempt>> {
        let mut attempt = pin!(self.patience.try_lock(session, self.request, wait));
        tokio::select! {
            biased;
            signal = self.signals.next_ending() => {
                let _ = timeout(PARTING_DEADLINE, part(attempt)).await;
                Ok(ControlFlow::Break(signal?))
            }
            attempt = &mut attempt => Ok(ControlFlow::Continue(attempt?)),
        }
    }

    /// The error for a pooler that refuses a transaction.
    async fn explained(&mut self, said: &str) -> anyhow::Result<Acquired> {
        let explained = self.patience.explain_refusal(self.settings, said);
        match self
            .unless_interrupted(async { Ok(explained.await) })
            .await?
        {
            ControlFlow::Continue(error) => Err(error),
            ControlFlow::Break(signal) => Ok(Acquired::Interrupted(signal)),
        }
    }

    /// The session, unless the wait for the lock would have no end, or has to end.
    async fn unless_for_itself(
        &mut self,
        mut session: Session,
    ) -> anyhow::Result<ControlFlow<Acquired, Session>> {
        let itself = waits_for_itself(&mut session, self.request);
        Ok(match self.unless_stopped(itself).await? {
            ControlFlow::Continue(false) => ControlFlow::Continue(session),
            ControlFlow::Continue(true) => {
                ControlFlow::Break(Stop::PatienceOver.end(session, None).await)
            }
            ControlFlow::Break(stop) => ControlFlow::Break(stop.end(session, None).await),
        })
    }

    /// What `work` comes to, unless a signal ends pglock first.
    async fn unless_interrupted<T>(
        &mut self,
        work: impl Future<Output = anyhow::Result<T>>,
    ) -> anyhow::Result<ControlFlow<Signal, T>> {
        tokio::select! {
            biased;
            signal = self.signals.next_ending() => Ok(ControlFlow::Break(signal?)),
            done = work => Ok(ControlFlow::Continue(done?)),
        }
    }

    /// What `work` comes to, unless the wait is to end first.
    async fn unless_stopped<T>(
        &mut self,
        work: impl Future<Output = anyhow::Result<T>>,
    ) -> anyhow::Result<ControlFlow<Stop, T>> {
        tokio::select! {
            biased;
            signal = self.signals.next_ending() => Ok(ControlFlow::Break(Stop::Signal(signal?))),
            () = self.patience.over() => Ok(ControlFlow::Break(Stop::PatienceOver)),
            done = work => Ok(ControlFlow::Continue(done?)),
        }
    }
}

impl Stop {
    /// Ends the wait of a session that is in no queue, or was behind so many.
    async fn end(self, session: Session, ahead: Option<u32>) -> Acquired {
        match self {
            Self::PatienceOver => Acquired::NotObtained { session, ahead },
            Self::Signal(signal) => {
                let _ = timeout(PARTING_DEADLINE, session.close()).await;
                Acquired::Interrupted(signal)
            }
        }
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
