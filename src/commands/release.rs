//! `pglock release`: free locks that others hold, by ending their sessions.

use std::io::{BufRead as _, IsTerminal as _, Write as _, stderr, stdin};
use std::ops::ControlFlow;
use std::rc::Rc;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::cli::{ConnectionArgs, ReleaseArgs};
use crate::connection::{self, Place, Prompt, Settings};
use crate::duration;
use crate::exit::Outcome;
use crate::inventory::{self, LockView, Termination};
use crate::key::Lock;
use crate::naming::Naming;
use crate::report;
use crate::session::Session;
use crate::text::printable;

/// How long to wait for a lock to be really gone.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);
/// The server wakes nobody when a lock goes; a terminated backend takes milliseconds, a stuck one longer.
const FIRST_LOOK: Duration = Duration::from_millis(5);
const LONGEST_PAUSE: Duration = Duration::from_millis(250);

pub fn release(connection: &ConnectionArgs, args: &ReleaseArgs) -> anyhow::Result<Outcome> {
    let naming = Naming::resolve(&args.naming)?;
    let timeout = match &args.timeout {
        Some(typed) => duration::parse("--timeout", typed)?,
        None => DEFAULT_TIMEOUT,
    };
    let tasks = tasks(connection, args, &naming)?;
    super::block_on(async {
        // All of them first: a place that cannot be reached must not leave the work half done.
        let mut opened = Vec::new();
        for (settings, locks) in tasks {
            let mut session = match super::open(&settings, "pglock release").await? {
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
        for (mut session, locks) in opened {
            for lock in &locks {
                release_one(&mut session, lock, args, timeout, &mut tally).await?;
            }
            session.close().await;
        }
        Ok(tally.outcome())
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
            Ok((
                Settings::resolve_for_lock(place, Rc::clone(&prompt))?,
                locks,
            ))
        })
        .collect()
}

/// What became of the holders so far.
#[derive(Debug, Default)]
struct Tally {
    freed: bool,
    denied: Vec<String>,
    still_held: Vec<String>,
}

impl Tally {
    /// A refusal counts most, then a lock that is still held.
    fn outcome(mut self) -> Outcome {
        if !self.denied.is_empty() {
            self.denied.append(&mut self.still_held);
            return Outcome::Denied(self.denied);
        }
        match (self.still_held.is_empty(), self.freed) {
            (false, _) => Outcome::StillHeld(self.still_held),
            (true, true) => Outcome::Done,
            (true, false) => Outcome::NothingHeld,
        }
    }
}

async fn release_one(
    session: &mut Session,
    lock: &Lock,
    args: &ReleaseArgs,
    timeout: Duration,
    tally: &mut Tally,
) -> anyhow::Result<()> {
    let mut holders = inventory::holders(session, &[lock.key]).await?;
    holders.retain(|holder| args.pid.is_none_or(|pid| holder.pid == Some(pid)));
    // A session may hold the lock in both modes.
    holders.sort_by_key(|holder| holder.pid);
    holders.dedup_by(|a, b| a.pid.is_some() && a.pid == b.pid);
    for holder in &holders {
        let described = holder.describe_as(lock);
        if holder.prepared {
            let transaction = holder.prepared_transaction.as_deref().unwrap_or("?");
            let transaction = transaction.replace('\'', "''");
            tally.still_held.push(format!(
                "{described}; ROLLBACK PREPARED '{transaction}' frees it"
            ));
        } else if args.dry_run {
            report::line(&format!("{described}; would end this session"));
            tally.freed = true;
        } else if args.force {
            end(session, holder, &described, timeout, tally).await?;
        } else if !has_terminal() {
            tally
                .still_held
                .push(format!("{described}; --force ends its session"));
        } else if confirmed(&described)? {
            end(session, holder, &described, timeout, tally).await?;
        } else {
            tally.still_held.push(format!("{lock} is left as it is"));
        }
    }
    Ok(())
}

fn has_terminal() -> bool {
    stdin().is_terminal() && stderr().is_terminal()
}

/// Asks the person at the terminal; the end of input is no.
fn confirmed(described: &str) -> anyhow::Result<bool> {
    let mut terminal = stderr().lock();
    write!(
        terminal,
        "pglock: {}; end its session? [y/N] ",
        printable(described)
    )?;
    let mut answer = String::new();
    if stdin().lock().read_line(&mut answer)? == 0 {
        writeln!(terminal)?;
    }
    Ok(matches!(answer.trim().to_lowercase().as_str(), "y" | "yes"))
}

/// Ends the holder's session and waits until the server no longer shows the lock as its.
async fn end(
    session: &mut Session,
    holder: &LockView,
    described: &str,
    timeout: Duration,
    tally: &mut Tally,
) -> anyhow::Result<()> {
    match inventory::terminate(session, holder).await? {
        Termination::AlreadyGone => {}
        Termination::Denied(help) => tally.denied.push(format!("permission denied: {help}")),
        Termination::Sent if gone_within(timeout, session, holder).await? => tally.freed = true,
        Termination::Sent => {
            tally.still_held.push(format!(
                "{described}, still after {} s",
                timeout.as_secs_f64()
            ));
        }
    }
    Ok(())
}

async fn gone_within(
    timeout: Duration,
    session: &mut Session,
    holder: &LockView,
) -> anyhow::Result<bool> {
    let deadline = Instant::now() + timeout;
    let mut pause = FIRST_LOOK;
    while inventory::still_holds(session, holder).await? {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(false);
        }
        sleep(pause.min(left)).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
    Ok(true)
}
