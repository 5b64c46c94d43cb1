//! Waiting in line for a lock that somebody else holds.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::time::Duration;

use tokio::time::{Instant, sleep_until, timeout};

use super::turn::{Heard, Next, Turn, What};
use super::{Acquired, Applicant, Blockers, JITTER, PARTING_DEADLINE, Stop};
use crate::key::Mode;
use crate::report::StatusLine;
use crate::session::{Attempt, Line, News, Request, Session, Told, Wait};

/// How long a person may see the same holder before it is asked who holds the lock now.
const SHOW_AGAIN: Duration = Duration::from_secs(5);

/// A session that stands in line, and what it knows of that.
struct Standing {
    session: Session,
    line: Line,
    turn: Turn,
    news: Classes,
}

/// The classes of the queues in which something is to be passed on: only where it was told, or two with places in several
/// queues would tell one another for ever.
#[derive(Default)]
struct Classes {
    told: BTreeSet<i32>,
    /// Where the lock was free at the last look; `None` before the first.
    free: Option<Vec<i32>>,
}

impl Applicant<'_> {
    /// Joins the queue, and tries when it is this session's turn, as long as the patience lasts.
    pub(super) async fn stand_in_line(
        &mut self,
        session: Session,
        since: i64,
    ) -> anyhow::Result<Acquired> {
        let (mut standing, ahead) = match self.join(session, since).await? {
            ControlFlow::Continue(joined) => joined,
            ControlFlow::Break(acquired) => return Ok(acquired),
        };
        if self.request.most_waiters.is_some_and(|most| ahead >= most) {
            let left = standing.session.leave(&standing.line);
            let _ = timeout(PARTING_DEADLINE, left).await;
            return Ok(Acquired::QueueFull {
                session: standing.session,
                waiting: ahead,
            });
        }
        self.report
            .detail(|| format!("somebody else holds the lock: waiting, {ahead} ahead in line"));
        let mut show = self.report.status_line().map(Show::new);
        let mut next = Planned::default();
        next.change(standing.turn.on(Heard::Joined { ahead }));
        loop {
            if let Some(show) = &mut show
                && next.due > Instant::now()
            {
                let shown = show.show(&mut standing, self.request);
                if let ControlFlow::Break(stop) = self.unless_stopped(shown).await? {
                    return Ok(standing.give_up(stop).await);
                }
            }
            let told = async {
                tokio::select! {
                    biased;
                    told = standing.session.told() => Ok(Some(told?)),
                    () = sleep_until(next.due) => Ok(None),
                }
            };
            let heard = match self.unless_stopped(told).await? {
                ControlFlow::Continue(Some(told)) => standing.heard(told),
                ControlFlow::Continue(None) => {
                    match Box::pin(self.carry_out(next.what, standing)).await? {
                        ControlFlow::Continue((still, heard)) => {
                            standing = still;
                            heard
                        }
                        ControlFlow::Break(acquired) => return Ok(acquired),
                    }
                }
                ControlFlow::Break(stop) => return Ok(standing.give_up(stop).await),
            };
            next.change(standing.turn.on(heard));
        }
    }

    /// A place at the end of the queue, and how many are ahead.
    async fn join(
        &mut self,
        mut session: Session,
        since: i64,
    ) -> anyhow::Result<ControlFlow<Acquired, (Standing, u32)>> {
        let (settings, request, patience) = (self.settings, self.request, self.patience);
        loop {
            match self.unless_stopped(session.join(request, since)).await? {
                ControlFlow::Continue(Some((line, ahead))) => {
                    let wants_more = !request.identity.claim.also.is_empty();
                    // Readers do not exclude one another, so one who looks for nobody would look in vain.
                    let turn = Turn::new(wants_more && request.mode == Mode::Exclusive);
                    let standing = Standing {
                        session,
                        line,
                        turn,
                        news: Classes::default(),
                    };
                    return Ok(ControlFlow::Continue((standing, ahead)));
                }
                ControlFlow::Continue(None) => {
                    let accepted = patience.accept_pooler(&mut session, settings);
                    if let ControlFlow::Break(stop) = self.unless_stopped(accepted).await? {
                        return Ok(ControlFlow::Break(stop.end(session, None).await));
                    }
                }
                ControlFlow::Break(stop) => {
                    return Ok(ControlFlow::Break(stop.end(session, None).await));
                }
            }
        }
    }

    /// Does what is to be done next; what is heard of it.
    async fn carry_out(
        &mut self,
        what: What,
        mut standing: Standing,
    ) -> anyhow::Result<ControlFlow<Acquired, (Standing, Heard)>> {
        let done = match what {
            What::Look => {
                let look = standing.session.look(self.request, &standing.line);
                let look = self.unless_stopped(look).await?;
                look.map_continue(|look| {
                    standing.news.free = Some(look.free.clone());
                    Heard::Looked(look)
                })
            }
            What::PassOn => {
                let classes = std::mem::take(&mut standing.news).where_to_pass_on();
                let passed = standing.session.pass_on(&standing.line, &classes);
                let passed = self.unless_stopped(passed).await?;
                passed.map_continue(|()| Heard::PassedOn)
            }
            What::Announce => {
                let announced = standing.session.announce(self.request);
                let announced = self.unless_stopped(announced).await?;
                announced.map_continue(|()| Heard::Announced)
            }
            What::Try => return Box::pin(self.try_in_line(standing)).await,
        };
        Ok(match done {
            ControlFlow::Continue(heard) => ControlFlow::Continue((standing, heard)),
            ControlFlow::Break(stop) => ControlFlow::Break(standing.give_up(stop).await),
        })
    }

    async fn try_in_line(
        &mut self,
        standing: Standing,
    ) -> anyhow::Result<ControlFlow<Acquired, (Standing, Heard)>> {
        let Standing {
            session,
            line,
            turn,
            news,
        } = standing;
        let wait = Wait::InLine(line.clone());
        let session = match self.try_lock(session, &wait).await? {
            ControlFlow::Break(signal) => {
                return Ok(ControlFlow::Break(Acquired::Interrupted(signal)));
            }
            ControlFlow::Continue(Attempt::Held(held)) => {
                return Ok(ControlFlow::Break(Acquired::Held(held)));
            }
            ControlFlow::Continue(
                Attempt::Busy { session, .. } | Attempt::Waits { session, .. },
            ) => session,
            ControlFlow::Continue(Attempt::Elsewhere(mut pooled)) => {
                let accepted = self.patience.accept_pooler(&mut pooled, self.settings);
                if let ControlFlow::Break(stop) = self.unless_stopped(accepted).await? {
                    return Ok(ControlFlow::Break(stop.end(pooled, None).await));
                }
                pooled
            }
            ControlFlow::Continue(Attempt::NoTransaction(said)) => {
                return self.explained(&said).await.map(ControlFlow::Break);
            }
        };
        let standing = Standing {
            session,
            line,
            turn,
            news,
        };
        Ok(ControlFlow::Continue((standing, Heard::Busy)))
    }
}

impl Standing {
    /// What that means for this place.
    fn heard(&mut self, told: Option<Told>) -> Heard {
        self.news.told.extend(told.map(|told| told.first.class));
        let ([mine], Some(told)) = (&self.line.tickets[..], told) else {
            return Heard::ToldSomething;
        };
        match told.news {
            News::Lock | News::Slot if told.first.class != mine.class => Heard::ToldSomething,
            News::Lock | News::Slot if told.first.number >= mine.number => Heard::ToldIsMine {
                is_particular: told.news == News::Slot,
            },
            News::Lock => Heard::ToldIsOf {
                first: told.first.number.into(),
            },
            News::Slot | News::PassedOn => Heard::ToldSomething,
        }
    }

    /// Leaves the queue, if the server still answers.
    async fn give_up(mut self, stop: Stop) -> Acquired {
        let ahead = self.turn.ahead();
        let left = timeout(PARTING_DEADLINE, self.session.leave(&self.line)).await;
        match stop {
            // One that does not answer needs no good-bye.
            Stop::Signal(signal) if left.is_err() => Acquired::Interrupted(signal),
            stop => stop.end(self.session, Some(ahead)).await,
        }
    }
}

impl Classes {
    fn where_to_pass_on(self) -> BTreeSet<i32> {
        let Self { mut told, free } = self;
        told.retain(|class| free.as_ref().is_none_or(|free| free.contains(class)));
        told
    }
}

/// What to do next, and when.
struct Planned {
    due: Instant,
    what: What,
}

impl Default for Planned {
    fn default() -> Self {
        Self {
            due: Instant::now(),
            what: What::Look,
        }
    }
}

impl Planned {
    /// Changes to what is to be done now, if anything is; after as long as it should be, or somewhat more or less, so
    /// that sessions that began together do not ask together.
    fn change(&mut self, next: Option<Next>) {
        if let Some(Next { after, what }) = next {
            let jitter = 1.0 - JITTER + 2.0 * JITTER * fastrand::f64();
            self.due = Instant::now() + after.mul_f64(jitter);
            self.what = what;
        }
    }
}

/// What a person at the terminal sees of the wait.
struct Show {
    line: StatusLine,
    held: String,
    asked: Option<Instant>,
}

impl Show {
    fn new(line: StatusLine) -> Self {
        Self {
            line,
            held: String::new(),
            asked: None,
        }
    }

    /// Shows who holds the lock, since when, and how many are ahead. What cannot be asked is left out; the next statement
    /// will tell why.
    async fn show(&mut self, standing: &mut Standing, request: &Request) -> anyhow::Result<()> {
        let is_recent = |asked: Instant| asked.elapsed() < SHOW_AGAIN;
        if !self.asked.is_some_and(is_recent) {
            self.asked = Some(Instant::now());
            if let Ok(blockers) = Blockers::of(request, &mut standing.session).await {
                self.held = blockers.held();
            }
        }
        let ahead = standing.turn.ahead();
        self.line
            .show(&format!("waiting, {ahead} ahead"), &self.held);
        Ok(())
    }
}
