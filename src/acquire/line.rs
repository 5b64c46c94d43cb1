//! Waiting in line for a lock that somebody else holds.

use std::ops::ControlFlow;
use std::time::Duration;

use nix::sys::signal::Signal;
use tokio::time::{sleep, timeout};

use super::turn::{Heard, Next, Turn, What};
use super::{Acquired, Blockers, JITTER, PARTING_DEADLINE, Patience};
use crate::connection::Settings;
use crate::report::{Reporter, StatusLine};
use crate::session::{Attempt, Line, Request, Session, Wait};
use crate::signals::Signals;

/// Why a wait ends without the lock.
enum Stop {
    Signal(Signal),
    PatienceOver,
}

/// Joins the queue, and tries when it is this session's turn, as long as the patience lasts.
pub async fn wait(
    mut session: Session,
    since: i64,
    settings: &Settings,
    request: &Request,
    patience: Patience,
    signals: &mut Signals,
    report: &Reporter,
) -> anyhow::Result<Acquired> {
    let joined = loop {
        match unless_stopped(session.join(request, since), patience, signals).await? {
            ControlFlow::Continue(Some(joined)) => break joined,
            ControlFlow::Continue(None) => {
                let accepted = patience.accept_pooler(&mut session, settings);
                if let ControlFlow::Break(stop) =
                    unless_stopped(accepted, patience, signals).await?
                {
                    return Ok(stop.end(session, None).await);
                }
            }
            ControlFlow::Break(stop) => return Ok(stop.end(session, None).await),
        }
    };
    let (line, ahead) = joined;
    if request.most_waiters.is_some_and(|most| ahead >= most) {
        let _ = timeout(PARTING_DEADLINE, session.leave(&line)).await;
        return Ok(Acquired::QueueFull {
            session,
            waiting: ahead,
        });
    }
    report.detail(|| format!("somebody else holds the lock: waiting, {ahead} ahead in line"));
    let mut status = report.status_line();
    let mut turn = Turn::default();
    let in_line = Wait::InLine(line.clone());
    let mut next = turn.on(Heard::Joined { ahead });
    loop {
        if let Some(status) = &mut status
            && next.after > Duration::ZERO
        {
            // What cannot be asked is left out; the next statement will tell why.
            let shown = async {
                let _ = show(status, &mut session, request, turn.ahead()).await;
                anyhow::Ok(())
            };
            if let ControlFlow::Break(stop) = unless_stopped(shown, patience, signals).await? {
                return Ok(give_up(session, &line, turn.ahead(), stop).await);
            }
        }
        let what = tokio::select! {
            biased;
            signal = signals.next_ending() => {
                return Ok(give_up(session, &line, turn.ahead(), Stop::Signal(signal?)).await);
            }
            () = patience.over() => {
                return Ok(give_up(session, &line, turn.ahead(), Stop::PatienceOver).await);
            }
            first = session.told() => {
                let is_first = line.is_first(first?);
                next = turn.on(Heard::Told { is_first });
                continue;
            }
            () = pause(next) => next.what,
        };
        let heard = match what {
            What::Look => {
                let look = session.look(request, &line);
                match unless_stopped(look, patience, signals).await? {
                    ControlFlow::Continue(look) => Heard::Looked {
                        ahead: look.ahead,
                        is_free: look.is_free,
                    },
                    ControlFlow::Break(stop) => {
                        return Ok(give_up(session, &line, turn.ahead(), stop).await);
                    }
                }
            }
            What::Try => {
                let attempt = patience.try_unless_interrupted(session, request, &in_line, signals);
                match attempt.await? {
                    ControlFlow::Break(signal) => return Ok(Acquired::Interrupted(signal)),
                    ControlFlow::Continue(Attempt::Held(held)) => return Ok(Acquired::Held(held)),
                    ControlFlow::Continue(
                        Attempt::Busy { session: busy, .. } | Attempt::Waits { session: busy, .. },
                    ) => session = busy,
                    ControlFlow::Continue(Attempt::Elsewhere(mut pooled)) => {
                        let accepted = patience.accept_pooler(&mut pooled, settings);
                        let accepted = unless_stopped(accepted, patience, signals).await?;
                        if let ControlFlow::Break(stop) = accepted {
                            return Ok(stop.end(pooled, None).await);
                        }
                        session = pooled;
                    }
                    ControlFlow::Continue(Attempt::NoTransaction(said)) => {
                        return Err(patience.explain_refusal(settings, &said).await);
                    }
                }
                Heard::Busy
            }
        };
        next = turn.on(heard);
    }
}

/// What `work` comes to, unless the wait is to end first.
async fn unless_stopped<T>(
    work: impl Future<Output = anyhow::Result<T>>,
    patience: Patience,
    signals: &mut Signals,
) -> anyhow::Result<ControlFlow<Stop, T>> {
    tokio::select! {
        biased;
        signal = signals.next_ending() => Ok(ControlFlow::Break(Stop::Signal(signal?))),
        () = patience.over() => Ok(ControlFlow::Break(Stop::PatienceOver)),
        done = work => Ok(ControlFlow::Continue(done?)),
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

/// Leaves the queue, if the server still answers.
async fn give_up(mut session: Session, line: &Line, ahead: u32, stop: Stop) -> Acquired {
    let left = timeout(PARTING_DEADLINE, session.leave(line)).await;
    match stop {
        // One that does not answer needs no good-bye.
        Stop::Signal(signal) if left.is_err() => Acquired::Interrupted(signal),
        stop => stop.end(session, Some(ahead)).await,
    }
}

/// Waits as long as it should, or somewhat more or less, so that sessions that began together do not ask together.
async fn pause(next: Next) {
    if next.after > Duration::ZERO {
        sleep(
            next.after
                .mul_f64(1.0 - JITTER + 2.0 * JITTER * fastrand::f64()),
        )
        .await;
    }
}

/// Shows who holds the lock, since when, and how many are ahead.
async fn show(
    status: &mut StatusLine,
    session: &mut Session,
    request: &Request,
    ahead: u32,
) -> anyhow::Result<()> {
    let claim = &request.identity.claim;
    let blockers = Blockers::of(claim, session).await?;
    status.show(&format!("waiting, {ahead} ahead"), &blockers.held());
    Ok(())
}
