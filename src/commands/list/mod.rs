//! `pglock list`: who holds and who waits.

mod screen;
mod search;
mod source;
mod watch;

use std::io::{IsTerminal as _, stdout};
use std::ops::ControlFlow;

use self::search::Search;
use self::source::{Found, Source};
use crate::cli::{ConnectionArgs, Format, ListArgs};
use crate::exit::{Fault, Outcome};
use crate::inventory::State;
use crate::output::table::More;
use crate::output::tree::{self, Row};
use crate::output::{self, Look, csv, json, prometheus, table};
use crate::report;

pub fn list(connection: &ConnectionArgs, args: &ListArgs) -> anyhow::Result<Outcome> {
    let period = args.watch.as_deref().map(watch::period).transpose()?;
    if args.tree && format(args) != Format::Table {
        return Err(Fault::Usage.error("--tree is drawn in the table only"));
    }
    let searches = Search::resolve(connection, args)?;
    let mut sources: Vec<Source> = searches.into_iter().map(Source::new).collect();
    super::block_on(async {
        if let Some(period) = period {
            return watch::watch(sources, args, period).await;
        }
        match source::read(&mut sources, args).await? {
            ControlFlow::Continue(found) => once(&found, args),
            ControlFlow::Break(interrupted) => Ok(interrupted),
        }
    })
}

fn once(found: &Found, args: &ListArgs) -> anyhow::Result<Outcome> {
    if args.quiet {
        return Ok(if found.locks().any(|view| view.state == State::Held) {
            Outcome::Done
        } else {
            Outcome::NothingHeld
        });
    }
    output::write(&render(found, args)?)?;
    // Last, where a long table does not carry them away.
    found.notes.iter().for_each(|note| report::line(note));
    Ok(Outcome::Done)
}

fn format(args: &ListArgs) -> Format {
    if args.json { Format::Json } else { args.format }
}

fn render(found: &Found, args: &ListArgs) -> anyhow::Result<String> {
    let for_terminal = stdout().is_terminal();
    match format(args) {
        Format::Json => json::render(found.locks()),
        Format::Csv => csv::render(found.locks(), for_terminal),
        Format::Prometheus => {
            let are_several = found.places.len() > 1;
            let places = found.places.iter().map(|place| {
                let link = Some(&place.link).filter(|_| are_several);
                (link, place.locks.as_slice())
            });
            Ok(prometheus::render(places, for_terminal))
        }
        Format::Table => Ok(render_table(found, args, Look::of_stdout())),
    }
}

fn render_table(found: &Found, args: &ListArgs, look: Look) -> String {
    let of_place = |locks| {
        if args.tree {
            tree::rows(locks, look.is_utf8)
        } else {
            tree::flat(locks)
        }
    };
    let rows: Vec<Row<'_>> = found
        .places
        .iter()
        .flat_map(|place| of_place(&place.locks))
        .collect();
    let more = More {
        wide: args.wide,
        database: args.all_databases,
    };
    table::render(&rows, more, look)
}
