//! Waiting in line for a lock that somebody else holds.

use std::ops::ControlFlow;
use std::time::Duration;

use tokio::time::{sleep, timeout};

use super::turn::{Heard, Next, Turn, What};
use super::{Acquired, JITTER, PARTING_DEADLINE, Patience};
use crate::connection::Settings;
use crate::report::Reporter;
use crate::session::{Attempt, Request, Session, Wait};
use crate::signals::Signals;

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
    let (line, ahead) = tokio::select! {
        biased;
        signal = signals.next_ending() => return Ok(Acquired::Interrupted(signal?)),
        joined = session.join(request, since) => joined?,
    };
    if request.most_waiters.is_some_and(|most| ahead >= most) {
        session.leave(request, line).await?;
        return Ok(Acquired::QueueFull {
            session,
            waiting: ahead,
        });
    }
    report.detail(|| format!("somebody else holds the lock: waiting, {ahead} ahead in line"));
    let mut turn = Turn::new(line.ticket);
    let mut next = turn.on(Heard::Joined { ahead });
    loop {
        let what = tokio::select! {
            biased;
            signal = signals.next_ending() => {
                let _ = timeout(PARTING_DEADLINE, session.leave(request, line)).await;
                session.close().await;
                return Ok(Acquired::Interrupted(signal?));
            }
            first = session.told() => {
                next = turn.on(Heard::Told { first });
                continue;
            }
            () = patience.over() => {
                session.leave(request, line).await?;
                return Ok(Acquired::NotObtained(session));
            }
            () = pause(next) => next.what,
        };
        let heard = match what {
            What::Look => {
                let look = session.look(request, line).await?;
                Heard::Looked {
                    ahead: look.ahead,
                    is_free: look.is_free,
                }
            }
            What::Try => {
                let wait = Wait::InLine(line);
                let attempt = patience.try_unless_interrupted(session, request, wait, signals);
                match attempt.await? {
                    ControlFlow::Break(signal) => return Ok(Acquired::Interrupted(signal)),
                    ControlFlow::Continue(Attempt::Held(held)) => return Ok(Acquired::Held(held)),
                    ControlFlow::Continue(
                        Attempt::Busy { session: busy, .. } | Attempt::Waits { session: busy, .. },
                    ) => session = busy,
                    ControlFlow::Continue(Attempt::Elsewhere(mut pooled)) => {
                        patience.accept_pooler(&mut pooled, settings).await?;
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
