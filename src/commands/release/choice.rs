//! Which holders are to let go, and how: a pglock is asked to, and the session of anybody else can only be ended.

use std::io::{BufRead as _, IsTerminal as _, Write as _, stderr, stdin};
use std::time::Duration;

use tokio::time::sleep;

use super::tally::Tally;
use crate::cli::ReleaseArgs;
use crate::inventory::{self, LockView};
use crate::key::Lock;
use crate::report;
use crate::session::Session;
use crate::text::printable;

/// A holder that is to let go.
pub struct Target {
    pub holder: LockView,
    /// Lock and holder, in a sentence.
    pub described: String,
    pub way: Way,
}

/// How it is brought to let go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Way {
    /// Its session is ended by the server.
    End,
    /// Its pglock stops the command first.
    Ask,
}

/// What it takes for a session to say that it now holds a lock, and is no longer waiting.
const SETTLING: Duration = Duration::from_millis(5);
const MOST_READINGS: usize = 10;

/// Chooses among the holders of a lock; nothing is done to them yet. Whom it leaves alone is said, or counted.
pub async fn choose(
    session: &mut Session,
    lock: &Lock,
    args: &ReleaseArgs,
    tally: &mut Tally,
) -> anyhow::Result<Vec<Target>> {
    let mut targets = Vec::new();
    let holders = holders(session, lock, args.pid).await?;
    if holders.is_empty() && stderr().is_terminal() {
        report::line(&match args.pid {
            Some(pid) => format!("{lock}: backend {pid} does not hold it"),
            None => format!("{lock}: nobody holds it"),
        });
    }
    for holder in holders {
        let described = holder.describe_as(lock);
        if holder.prepared {
            let transaction = holder.prepared_transaction.as_deref().unwrap_or("?");
            let transaction = transaction.replace('\'', "''");
            tally.still_held.push(format!(
                "{described}; ROLLBACK PREPARED '{transaction}' frees it"
            ));
            continue;
        }
        let way = if holder.is_held_by_pglock() && !args.force {
            Way::Ask
        } else {
            Way::End
        };
        let is_chosen = match way {
            Way::Ask | Way::End if args.dry_run => {
                let would = match way {
                    Way::Ask => "would ask it to stop its command",
                    Way::End => "would end this session",
                };
                report::line(&format!("{described}; {would}"));
                tally.freed = true;
                false
            }
            Way::Ask => true,
            Way::End if args.force || args.yes => true,
            Way::End if !has_terminal() => {
                let said = format!("{described}; --yes ends its session");
                tally.still_held.push(said);
                false
            }
            Way::End => {
                let is_confirmed = confirmed(&described)?;
                if !is_confirmed {
                    let said = format!("{lock} is left as it is");
                    tally.still_held.push(said);
                }
                is_confirmed
            }
        };
        if is_chosen {
            targets.push(Target {
                holder,
                described,
                way,
            });
        }
    }
    Ok(targets)
}

/// The sessions that hold the lock, each once, once two readings agree on those that are not pglock's: one that has
/// just got the lock may be seen before it says so.
async fn holders(
    session: &mut Session,
    lock: &Lock,
    pid: Option<i32>,
) -> anyhow::Result<Vec<LockView>> {
    let mut seen = None;
    for _ in 1..MOST_READINGS {
        let holders = read(session, lock, pid).await?;
        let strange = holders.iter().filter(|holder| !holder.is_held_by_pglock());
        let strange = strange.map(|holder| (holder.pid, holder.application_name.clone()));
        let strange: Vec<_> = strange.collect();
        if strange.is_empty() || seen.as_ref() == Some(&strange) {
            return Ok(holders);
        }
        seen = Some(strange);
        sleep(SETTLING).await;
    }
    read(session, lock, pid).await
}

async fn read(
    session: &mut Session,
    lock: &Lock,
    pid: Option<i32>,
) -> anyhow::Result<Vec<LockView>> {
    let mut holders = inventory::holders(session, &[lock.key]).await?;
    holders.retain(|holder| pid.is_none_or(|pid| holder.pid == Some(pid)));
    // A session may hold the lock in both modes.
    holders.sort_by_key(|holder| holder.pid);
    holders.dedup_by(|a, b| a.pid.is_some() && a.pid == b.pid);
    Ok(holders)
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
