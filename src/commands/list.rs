//! `pglock list`: who holds and who waits.

use std::io::{IsTerminal as _, stdout};

use glob::Pattern;

use crate::cli::{ConnectionArgs, Format, ListArgs};
use crate::connection::Settings;
use crate::exit::Outcome;
use crate::inventory::{self, LockView, Scope, State};
use crate::key::{LockKey, LockName};
use crate::naming::Naming;
use crate::output::{self, csv, json, table};
use crate::session::Session;

pub fn list(connection: &ConnectionArgs, args: &ListArgs) -> anyhow::Result<Outcome> {
    let filter = Filter::resolve(args)?;
    let settings = Settings::resolve(connection)?;
    let scope = if args.all_databases {
        Scope::AllDatabases
    } else {
        Scope::CurrentDatabase
    };
    let mut views = super::block_on(async {
        let mut session = Session::open(&settings, "pglock list").await?;
        let views = inventory::read(&mut session, scope).await?;
        session.close().await;
        Ok(views)
    })?;
    views.retain(|view| filter.accepts(view));
    if args.quiet {
        return Ok(if views.iter().any(|view| view.state == State::Held) {
            Outcome::Done
        } else {
            Outcome::NothingHeld
        });
    }
    output::write(&render(args, &views)?)?;
    Ok(Outcome::Done)
}

fn render(args: &ListArgs, views: &[LockView]) -> anyhow::Result<String> {
    match args.format {
        _ if args.json => json::render(views),
        Format::Json => json::render(views),
        Format::Csv => csv::render(views, stdout().is_terminal()),
        Format::Table => Ok(table::render(views, output::terminal_width(), args.wide)),
    }
}

/// Which locks were asked for: any of these, or all when there is none.
struct Filter {
    wanted: Vec<Wanted>,
}

enum Wanted {
    Key(LockKey),
    /// Names that match, in this namespace.
    Glob {
        namespace: Option<String>,
        pattern: Pattern,
    },
    /// Everything in a namespace.
    Namespace(String),
}

impl Filter {
    fn resolve(args: &ListArgs) -> anyhow::Result<Self> {
        let naming = Naming::resolve(&args.naming)?;
        let mut wanted = Vec::new();
        for name in &args.name {
            wanted.push(Wanted::Key(naming.lock(name)?.key));
            wanted.extend(glob(name, &naming));
        }
        if let (true, Some(namespace)) = (args.name.is_empty(), &args.naming.namespace) {
            wanted.push(Wanted::Namespace(namespace.clone()));
        }
        Ok(Self { wanted })
    }

    fn accepts(&self, view: &LockView) -> bool {
        self.wanted.is_empty() || self.wanted.iter().any(|wanted| wanted.is(view))
    }
}

/// A NAME with a wildcard in it that is well-formed; the literal name is looked for anyway.
fn glob(name: &str, naming: &Naming) -> Option<Wanted> {
    let namespace = match naming {
        Naming::Raw => return None,
        Naming::Plain => None,
        Naming::Namespaced(namespace) => Some(namespace.clone()),
    };
    let pattern = name
        .contains(['*', '?', '['])
        .then(|| Pattern::new(name).ok())??;
    Some(Wanted::Glob { namespace, pattern })
}

impl Wanted {
    fn is(&self, view: &LockView) -> bool {
        match self {
            Self::Key(key) => view.key == *key,
            Self::Glob { namespace, pattern } => {
                view.namespace == *namespace
                    && view.name.as_ref().is_some_and(|name| pattern.matches(name))
            }
            Self::Namespace(namespace) => match view.key {
                LockKey::Bigint(_) => false,
                LockKey::Pair(first, _) => first == LockName::namespace_key(namespace),
            },
        }
    }
}
