//! `pglock list`: who holds and who waits.

use std::io::{IsTerminal as _, stdout};
use std::ops::ControlFlow;
use std::rc::Rc;

use glob::Pattern;

use crate::cli::{ConnectionArgs, Format, ListArgs};
use crate::connection::{self, Place, Prompt, Settings};
use crate::exit::Outcome;
use crate::inventory::{self, Inventory, LockView, Scope, State};
use crate::key::LockKey;
use crate::naming::Naming;
use crate::output::{self, csv, json, table};
use crate::report;

pub fn list(connection: &ConnectionArgs, args: &ListArgs) -> anyhow::Result<Outcome> {
    let searches = Search::resolve(connection, args)?;
    let views = match super::block_on(find(&searches, args))? {
        ControlFlow::Continue(views) => views,
        ControlFlow::Break(interrupted) => return Ok(interrupted),
    };
    if args.quiet {
        return Ok(if views.iter().any(|view| view.state == State::Held) {
            Outcome::Done
        } else {
            Outcome::NothingHeld
        });
    }
    output::write(&render(args, &views)?)?;
    for collision in inventory::collisions(&views) {
        report::line(&collision);
    }
    Ok(Outcome::Done)
}

/// What is found, place by place.
async fn find(
    searches: &[Search],
    args: &ListArgs,
) -> anyhow::Result<ControlFlow<Outcome, Vec<LockView>>> {
    let scope = if args.all_databases {
        Scope::AllDatabases
    } else {
        Scope::CurrentDatabase
    };
    let mut found = Vec::new();
    for search in searches {
        let mut session = match super::open(&search.settings, "pglock list").await? {
            ControlFlow::Continue(session) => session,
            ControlFlow::Break(interrupted) => return Ok(ControlFlow::Break(interrupted)),
        };
        let Inventory { locks, is_standby } = inventory::read(&mut session, &scope).await?;
        let mut locks: Vec<LockView> = locks
            .into_iter()
            .filter(|view| search.accepts(view))
            .collect();
        if !args.quiet {
            inventory::name_owners(&mut session, &mut locks).await;
        }
        session.close().await;
        if is_standby {
            if args.quiet {
                return Err(super::standby());
            }
            report::line("this server is a standby: the locks of the primary are not shown");
        }
        found.extend(locks);
    }
    Ok(ControlFlow::Continue(found))
}

fn render(args: &ListArgs, views: &[LockView]) -> anyhow::Result<String> {
    match args.format {
        _ if args.json => json::render(views),
        Format::Json => json::render(views),
        Format::Csv => csv::render(views, stdout().is_terminal()),
        Format::Table => Ok(table::render(views, output::terminal_width(), args.wide)),
    }
}

/// Which locks to look for in one place: any of these.
struct Search {
    settings: Settings,
    wanted: Vec<Wanted>,
}

#[derive(Clone)]
enum Wanted {
    All,
    Key(LockKey),
    /// Names that match, in this namespace.
    Glob {
        namespace: Option<String>,
        pattern: Pattern,
    },
    /// Everything in a namespace, by its first key.
    Namespace(i32),
}

impl Search {
    /// A name is looked for where its lock lives, and what may be anywhere in all places.
    fn resolve(connection: &ConnectionArgs, args: &ListArgs) -> anyhow::Result<Vec<Self>> {
        let naming = Naming::resolve(&args.naming)?;
        let everywhere = |wanted: Wanted| {
            let places = Place::all(connection, naming.namespace())?;
            anyhow::Ok(places.into_iter().map(move |place| (place, wanted.clone())))
        };
        let mut wanted = Vec::new();
        if args.name.is_empty() {
            wanted.extend(everywhere(match &args.naming.namespace {
                Some(namespace) => Wanted::Namespace(naming.class(namespace)?),
                None => Wanted::All,
            })?);
        }
        // First, so that the shards come in order.
        for glob in args.name.iter().filter_map(|name| glob(name, &naming)) {
            wanted.extend(everywhere(glob)?);
        }
        for name in &args.name {
            let lock = naming.lock(name)?;
            wanted.push((Place::of_lock(connection, &lock)?, Wanted::Key(lock.key)));
        }
        let is_together =
            |a: &Place, b: &Place| a == b || args.all_databases && a.is_on_the_server_of(b);
        let prompt = Rc::new(Prompt::resolve(connection));
        connection::group(wanted, is_together)
            .into_iter()
            .map(|(place, wanted)| {
                let settings = Settings::resolve_for_lock(place, Rc::clone(&prompt))?;
                Ok(Self { settings, wanted })
            })
            .collect()
    }

    fn accepts(&self, view: &LockView) -> bool {
        self.wanted.iter().any(|wanted| wanted.is(view))
    }
}

/// A NAME with a wildcard in it that is well-formed; the literal name is looked for anyway.
fn glob(name: &str, naming: &Naming) -> Option<Wanted> {
    let Naming::Named { namespace, .. } = naming else {
        return None;
    };
    let pattern = name
        .contains(['*', '?', '['])
        .then(|| Pattern::new(name).ok())??;
    Some(Wanted::Glob {
        namespace: namespace.clone(),
        pattern,
    })
}

impl Wanted {
    fn is(&self, view: &LockView) -> bool {
        match self {
            Self::All => true,
            Self::Key(key) => view.key == *key || view.lock_key == *key,
            Self::Glob { namespace, pattern } => {
                view.namespace == *namespace
                    && view.name.as_ref().is_some_and(|name| pattern.matches(name))
            }
            Self::Namespace(namespace) => match view.key {
                LockKey::Bigint(_) => false,
                LockKey::Pair(first, _) => first == *namespace,
            },
        }
    }
}
