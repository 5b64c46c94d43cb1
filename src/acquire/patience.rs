//! How long to wait for connection and lock together, and what that allows each step.

use std::time::Duration;

use tokio::time::{Instant, sleep, sleep_until, timeout, timeout_at};

use super::JITTER;
use crate::connection::Settings;
use crate::exit::Fault;
use crate::identity::Stage;
use crate::session::{self, Attempt, Request, Scope, Session, Wait};

/// How long a server that was connected to may take to answer a single try.
const ANSWER_DEADLINE: Duration = Duration::from_secs(10);
/// The same for the try at the end of the patience.
const LAST_ANSWER_DEADLINE: Duration = Duration::from_secs(1);

/// How long it may take to find out how a pooler pools: some statements, each of which may have to wait for a
/// backend.
const POOLER_DEADLINE: Duration = Duration::from_secs(30);
/// What a session is called that looks at a pooler.
const LOOKING: &str = "pglock pooler check";

/// How long to wait for connection and lock together.
#[derive(Clone, Copy, Debug)]
pub enum Patience {
    None,
    Until(Instant),
    Unlimited,
}

impl Patience {
    /// The same, beginning later.
    pub fn postponed_by(self, delay: Duration) -> Self {
        match self {
            Self::Until(deadline) => Self::Until(deadline + delay),
            Self::None | Self::Unlimited => self,
        }
    }

    pub(super) fn first_wait(self, request: &Request) -> Wait {
        match (self, request.scope) {
            (Self::None, _) | (_, Scope::Transaction) => Wait::Unannounced,
            (Self::Until(_) | Self::Unlimited, Scope::Session) if request.queued().is_empty() => {
                Wait::Unannounced
            }
            (Self::Until(_) | Self::Unlimited, Scope::Session) => Wait::NotYet,
        }
    }

    pub(super) async fn connect(
        self,
        settings: &Settings,
        request: &Request,
    ) -> anyhow::Result<Session> {
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

    pub(super) async fn accept_pooler(
        self,
        session: &mut Session,
        settings: &Settings,
    ) -> anyhow::Result<()> {
        let accepted = session.accept_pooler(settings, LOOKING);
        let accepted = timeout(self.pooler_deadline(), accepted).await;
        accepted.unwrap_or_else(|_| Err(Fault::CannotConnect.error("the pooler does not answer")))
    }

    pub(super) async fn explain_refusal(self, settings: &Settings, said: &str) -> anyhow::Error {
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

    /// One try; a server that does not answer is given up, except where the wait is unlimited.
    pub(super) async fn try_lock(
        self,
        session: Session,
        request: &Request,
        wait: &Wait,
    ) -> anyhow::Result<Attempt> {
        let answer = session.try_lock(request, wait);
        if let Self::Unlimited = self {
            return answer.await;
        }
        let answer = timeout(self.answer_deadline(), answer).await;
        answer.unwrap_or_else(|_| Err(Fault::CannotConnect.error("the server does not answer")))
    }

    pub(super) fn answer_deadline(self) -> Duration {
        match self {
            Self::None | Self::Unlimited => ANSWER_DEADLINE,
            Self::Until(deadline) => left_until(deadline).max(LAST_ANSWER_DEADLINE),
        }
    }

    /// How long the lock may be held without anybody who watches it.
    pub(super) fn token_deadline(self) -> Duration {
        self.answer_deadline().min(ANSWER_DEADLINE)
    }

    pub(super) fn is_some(self) -> bool {
        !matches!(self, Self::None)
    }

    /// Returns when it is over.
    pub(super) async fn over(self) {
        match self {
            Self::None => {}
            Self::Until(deadline) => sleep_until(deadline).await,
            Self::Unlimited => std::future::pending().await,
        }
    }

    /// Pauses between two tries; `false` when there is no time for another.
    pub(super) async fn wait(self, pause: Duration) -> bool {
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
