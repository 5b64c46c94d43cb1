//! `pglock release`: free locks that others hold. A pglock is asked to stop its command and let go, the session of
//! anybody else is ended.

mod choice;
mod tally;

use std::ops::ControlFlow;
use std::rc::Rc;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};

use self::choice::{Target, Way};
use self::tally::Tally;
use crate::cli::{ConnectionArgs, ReleaseArgs};
use crate::connection::{self, Place, Prompt, Settings};
use crate::duration;
use crate::exit::Outcome;
use crate::inventory::{self, Notice};
use crate::key::Lock;
use crate::naming::Naming;
use crate::requester;
use crate::session::Session;
use crate::signals::{self, Signals};

/// How long to wait for a lock to be really gone.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);
/// The server wakes nobody when a lock goes; a terminated backend takes milliseconds, a job that stops longer.
const FIRST_LOOK: Duration = Duration::from_millis(5);
const LONGEST_PAUSE: Duration = Duration::from_millis(250);
/// How long it may take to withdraw a request; the end of the session does it, too.
const PARTING_DEADLINE: Duration = Duration::from_millis(500);

/// A session, and the holders there that are to let go.
struct Work {
    session: Session,
    targets: Vec<Target>,
}

pub fn release(connection: &ConnectionArgs, args: &ReleaseArgs) -> anyhow::Result<Outcome> {
    let naming = Naming::resolve(&args.naming)?;
    let limit = match &args.timeout {
        Some(typed) => duration::parse("--timeout", typed)?,
        None => DEFAULT_TIMEOUT,
    };
    let tasks = tasks(connection, args, &naming)?;
    super::block_on(async {
        // All of them first: a place that cannot be reached must not leave the work half done.
        let mut opened = Vec::new();
        for (settings, locks) in tasks {
            let called = requester::application_name();
            let mut session = match super::open(&settings, &called).await? {
                ControlFlow::Continue(session) => session,
                ControlFlow::Break(interrupted) => return Ok(interrupted),
            };
            if session.is_standby().await? {
                return Err(super::standby());
            }
            session.survive_idling().await?;
            opened.push((session, locks));
        }
        let mut tally = Tally::default();
        let mut works = Vec::new();
        for (mut session, locks) in opened {
            let mut targets = Vec::new();
            for lock in &locks {
                targets.extend(choice::choose(&mut session, lock, args, &mut tally).await?);
            }
            works.push(Work { session, targets });
        }
        free_unless_interrupted(works, limit, tally).await
    })
}

/// The locks, by the places where they live.
fn tasks(
    connection: &ConnectionArgs,
    args: &ReleaseArgs,
    naming: &Naming,
) -> anyhow::Result<Vec<(Settings, Vec<Lock>)>> {
    let locks = args.name.iter().map(|name| {
        let lock = naming.lock(name)?;
        Ok((Place::of_lock(connection, &lock)?, lock))
    });
    let locks = locks.collect::<anyhow::Result<Vec<_>>>()?;
    let prompt = Rc::new(Prompt::resolve(connection));
    connection::group(locks, Place::eq)
        .into_iter()
        .map(|(place, locks)| {
            let settings = Settings::resolve_for_lock(place, Rc::clone(&prompt))?;
            for lock in &locks {
                super::require_its_database(lock, &settings)?;
            }
            Ok((settings, locks))
        })
        .collect()
}

/// A signal withdraws what was asked for, and leaves no session behind.
async fn free_unless_interrupted(
    mut works: Vec<Work>,
    limit: Duration,
    mut tally: Tally,
) -> anyhow::Result<Outcome> {
    let inherited = signals::block()?;
    let mut signals = Signals::open(&inherited)?;
    let freed = tokio::select! {
        biased;
        signal = signals.next_ending() => signal.map(Some).map_err(Into::into),
        freed = free(&mut works, limit, &mut tally) => freed.map(|()| None),
    };
    for Work {
        mut session,
        targets,
    } in works
    {
        if targets.iter().any(|target| target.way == Way::Ask) {
            let _ = timeout(PARTING_DEADLINE, session.roll_back()).await;
        }
        session.close().await;
    }
    let interrupted = freed?.map(|signal| Outcome::Interrupted {
        signal: signal as i32,
    });
    Ok(interrupted.unwrap_or_else(|| tally.outcome()))
}

/// Has all of them let go, and waits until the server no longer shows the locks as theirs.
async fn free(works: &mut [Work], limit: Duration, tally: &mut Tally) -> anyhow::Result<()> {
    for work in &mut *works {
        work.give_notice(tally).await?;
    }
    let deadline = Instant::now() + limit;
    for work in works {
        work.wait(deadline, limit, tally).await?;
    }
    Ok(())
}

impl Work {
    /// Ends sessions before it opens the transaction in which it asks: a refusal would end that, too.
    async fn give_notice(&mut self, tally: &mut Tally) -> anyhow::Result<()> {
        let mut targets = std::mem::take(&mut self.targets);
        targets.sort_by_key(|target| target.way);
        let mut asks = false;
        for target in targets {
            let notice = match target.way {
                Way::End => inventory::terminate(&mut self.session, &target.holder).await?,
                Way::Ask => {
                    if !std::mem::replace(&mut asks, true) {
                        self.session.begin().await?;
                    }
                    inventory::ask(&mut self.session, &target.holder).await?
                }
            };
            match notice {
                Notice::Given => self.targets.push(target),
                Notice::AlreadyGone => {}
                Notice::Prevented => tally.still_held.push(format!(
                    "{}; it cannot be asked, as somebody holds the lock that asks; --force ends its session",
                    target.described
                )),
                Notice::Denied(help) => tally.denied.push(format!("permission denied: {help}")),
            }
        }
        Ok(())
    }

    /// Waits until the server no longer shows the locks as those of whom notice was given to.
    async fn wait(
        &mut self,
        deadline: Instant,
        limit: Duration,
        tally: &mut Tally,
    ) -> anyhow::Result<()> {
        for target in &self.targets {
            if is_gone_by(deadline, &mut self.session, target).await? {
                tally.freed = true;
                continue;
            }
            let (described, limit) = (&target.described, humantime::format_duration(limit));
            tally.still_held.push(match target.way {
                Way::End => format!("{described}, still after {limit}"),
                Way::Ask => format!(
                    "{described}, still {limit} after it was asked to stop; --force ends its session"
                ),
            });
        }
        Ok(())
    }
}

async fn is_gone_by(
    deadline: Instant,
    session: &mut Session,
    target: &Target,
) -> anyhow::Result<bool> {
    let mut pause = FIRST_LOOK;
    loop {
        let still_holds = match target.way {
            Way::End => inventory::still_holds(session, &target.holder).await?,
            Way::Ask => inventory::still_holds_as_asked(session, &target.holder).await?,
        };
        let left = deadline.saturating_duration_since(Instant::now());
        if !still_holds || left.is_zero() {
            return Ok(!still_holds);
        }
        sleep(pause.min(left)).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}
