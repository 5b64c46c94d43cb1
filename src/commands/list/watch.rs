//! `list --watch`: the same look again and again, over sessions that stay open.

use std::collections::BTreeSet;
use std::future::pending;
use std::ops::ControlFlow;
use std::pin::pin;
use std::time::Duration;

use nix::sys::signal::Signal;
use tokio::time::{Instant, sleep_until};

use super::screen::{self, Screen, Wish};
use super::source::{self, Found, Source};
use crate::cli::{Format, ListArgs};
use crate::duration;
use crate::exit::{Fault, Outcome};
use crate::inventory::State;
use crate::output::{self, Look, Reader};
use crate::report;
use crate::signals::{self, Signals};

/// A look costs the server some milliseconds, more where there are many locks.
const SHORTEST_PERIOD: Duration = Duration::from_millis(100);
/// A server that is full, or has gone, is not to be worn out by those who log in; a person still sees at once that it is back.
const SHORTEST_PAUSE_IN_TROUBLE: Duration = Duration::from_secs(1);
/// Where the terminal does not say how many lines it has.
const USUAL_HEIGHT: u16 = 24;

/// Reads the value of `--watch`.
pub fn period(typed: &str) -> anyhow::Result<Duration> {
    let period = duration::parse("--watch", typed)?;
    if period < SHORTEST_PERIOD {
        return Err(Fault::Usage.error("--watch: at least 0.1s between two looks"));
    }
    Ok(period)
}

/// Looks until it is interrupted, quit, or nobody reads any more.
///
/// On a terminal a connection that is lost is opened again; elsewhere that ends it, as nobody would see.
pub async fn watch(
    mut sources: Vec<Source>,
    args: &ListArgs,
    period: Duration,
) -> anyhow::Result<Outcome> {
    let outcome = look_again_and_again(&mut sources, args, period).await?;
    for source in &mut sources {
        source.close().await;
    }
    Ok(outcome)
}

/// The terminal is as it was before when this ends, however it does.
async fn look_again_and_again(
    sources: &mut [Source],
    args: &ListArgs,
    period: Duration,
) -> anyhow::Result<Outcome> {
    let inherited = signals::block()?;
    let mut person = Person {
        signals: Signals::open(&inherited)?,
        screen: None,
    };
    let mut found = match look(sources, args, &mut person).await? {
        ControlFlow::Continue(found) => found,
        ControlFlow::Break(outcome) => return Ok(outcome),
    };
    if super::format(args) == Format::Table {
        person.screen = Screen::open()?;
    }
    let mut trouble = None;
    let mut said = BTreeSet::new();
    loop {
        let paint = || screen::paint(&picture(&found, trouble.as_deref(), args, period));
        match &person.screen {
            Some(_) => paint()?,
            None if print(&found, args, &mut said)? == Reader::Gone => return Ok(Outcome::Done),
            None => {}
        }
        let looked = Instant::now();
        let not_before = match &trouble {
            Some(_) => looked + SHORTEST_PAUSE_IN_TROUBLE,
            None => looked,
        };
        let mut next = not_before.max(looked + period);
        while next > Instant::now() {
            tokio::select! {
                biased;
                event = person.next() => match event? {
                    Event::End(outcome) => return Ok(outcome),
                    Event::Look => {
                        next = not_before;
                        // Meanwhile what there is, on a screen that may have another size.
                        person.screen.as_ref().map_or(Ok(()), |_| paint())?;
                    }
                },
                () = sleep_until(next) => {}
            }
        }
        match look(sources, args, &mut person).await {
            Ok(ControlFlow::Continue(now)) => (found, trouble) = (now, None),
            Ok(ControlFlow::Break(outcome)) => return Ok(outcome),
            Err(error) if person.screen.is_some() && is_passing(&error) => {
                trouble = Some(format!("{error:#}"));
            }
            Err(error) => return Err(error),
        }
    }
}

/// One look, unless the person ends it.
async fn look(
    sources: &mut [Source],
    args: &ListArgs,
    person: &mut Person,
) -> anyhow::Result<ControlFlow<Outcome, Found>> {
    let mut reading = pin!(source::read(sources, args));
    loop {
        tokio::select! {
            biased;
            event = person.next() => if let Event::End(outcome) = event? {
                return Ok(ControlFlow::Break(outcome));
            },
            found = &mut reading => return found,
        }
    }
}

/// Whether another try may do better.
fn is_passing(error: &anyhow::Error) -> bool {
    Fault::CannotConnect.classifies(error) || Fault::Full.classifies(error)
}

/// Where no terminal is painted, one output after the other; what is to be known of them is said once.
fn print(found: &Found, args: &ListArgs, said: &mut BTreeSet<String>) -> anyhow::Result<Reader> {
    for note in &found.notes {
        if said.insert(note.clone()) {
            report::line(note);
        }
    }
    let mut text = super::render(found, args)?;
    if super::format(args) == Format::Table {
        text.push('\n');
    }
    output::write_to_reader(&text)
}

/// The lines of a screen: when, how many, what is to be known, and the table as far as there is room.
fn picture(found: &Found, trouble: Option<&str>, args: &ListArgs, period: Duration) -> Vec<String> {
    let look = Look::of_terminal();
    let count = |state| found.locks().filter(|view| view.state == state).count();
    let at = humantime::format_rfc3339_seconds(found.at).to_string();
    let time = at.get("2026-11-30T".len()..).unwrap_or_default();
    let summary = format!(
        "{} held, {} waiting at {time}; every {}, q quits",
        count(State::Held),
        count(State::Waiting),
        humantime::format_duration(period)
    );
    let trouble = trouble.map(|trouble| format!("this was before, trying again: {trouble}"));
    let told = [summary]
        .into_iter()
        .chain(trouble)
        .chain(found.notes.iter().cloned());
    let mut lines: Vec<String> = told.map(|line| look.line(&line)).collect();
    lines.push(String::new());
    lines.extend(
        super::render_table(found, args, look)
            .lines()
            .map(str::to_owned),
    );
    // The cursor stays in the last line, so that nothing scrolls.
    let height = usize::from(output::height().unwrap_or(USUAL_HEIGHT).max(3)) - 1;
    if lines.len() > height {
        let more = lines.len() - height + 1;
        lines.truncate(height - 1);
        lines.push(look.line(&format!("and {more} more")));
    }
    lines
}

/// Whoever sits before it: signals, and keys where there is a screen.
struct Person {
    signals: Signals,
    screen: Option<Screen>,
}

enum Event {
    End(Outcome),
    /// Time for another look: the window has another size, or somebody asked.
    Look,
}

impl Person {
    /// Cancel-safe.
    async fn next(&mut self) -> anyhow::Result<Event> {
        loop {
            let wish = async {
                match &mut self.screen {
                    Some(screen) => screen.wish().await,
                    None => pending().await,
                }
            };
            let signal = tokio::select! {
                caught = self.signals.next() => caught?.signal,
                wish = wish => match wish? {
                    Wish::Quit => return Ok(Event::End(Outcome::Done)),
                    Wish::Look => return Ok(Event::Look),
                    Wish::Suspend => {
                        self.screen.as_mut().map_or(Ok(()), Screen::suspend)?;
                        return Ok(Event::Look);
                    }
                },
            };
            match signal {
                Signal::SIGCHLD => {}
                Signal::SIGWINCH => return Ok(Event::Look),
                Signal::SIGCONT => {
                    self.screen.as_mut().map_or(Ok(()), Screen::resume)?;
                    return Ok(Event::Look);
                }
                ending => {
                    let signal = ending as i32;
                    return Ok(Event::End(Outcome::Interrupted { signal }));
                }
            }
        }
    }
}
