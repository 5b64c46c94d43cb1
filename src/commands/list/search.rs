//! Which locks to look for, and where.

use std::rc::Rc;

use glob::Pattern;

use crate::cli::{ConnectionArgs, ListArgs};
use crate::commands;
use crate::connection::{self, Place, Prompt, Settings};
use crate::exit::Fault;
use crate::inventory::LockView;
use crate::key::{Lock, LockKey, Rule, ShownKey};
use crate::naming::Naming;

/// Which locks to look for in one place: any of these.
pub struct Search {
    pub settings: Settings,
    wanted: Vec<Wanted>,
}

#[derive(Clone)]
enum Wanted {
    All,
    Lock(Lock),
    /// Names that match, in this namespace and by this rule.
    Glob {
        namespace: Option<String>,
        rule: Rule,
        pattern: Pattern,
    },
    /// Everything in a namespace, by its first key.
    Namespace(i32),
}

impl Search {
    /// A name is looked for where its lock lives, and what may be anywhere in all places.
    pub fn resolve(connection: &ConnectionArgs, args: &ListArgs) -> anyhow::Result<Vec<Self>> {
        let naming = Naming::resolve(&args.naming)?;
        let everywhere = |wanted: Wanted| {
            let places = Place::all(connection, naming.namespace())?;
            anyhow::Ok(places.into_iter().map(move |place| (place, wanted.clone())))
        };
        let mut wanted = Vec::new();
        if args.name.is_empty() && !naming.is_of_pglock() {
            return Err(Fault::Usage
                .error("--raw, --hash and --as say how a NAME is read: give a NAME, too"));
        }
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
            wanted.push((Place::of_lock(connection, &lock)?, Wanted::Lock(lock)));
        }
        let is_together =
            |a: &Place, b: &Place| a == b || args.all_databases && a.is_on_the_server_of(b);
        let prompt = Rc::new(Prompt::resolve(connection));
        connection::group(wanted, is_together)
            .into_iter()
            .map(|(place, wanted)| {
                let settings = Settings::resolve_for_lock(place, Rc::clone(&prompt))?;
                if !args.all_databases {
                    for lock in wanted.iter().filter_map(Wanted::lock) {
                        commands::require_its_database(lock, &settings)?;
                    }
                }
                Ok(Self { settings, wanted })
            })
            .collect()
    }

    pub fn accepts(&self, view: &LockView) -> bool {
        self.wanted.iter().any(|wanted| wanted.is(view))
    }
}

/// A NAME with a wildcard in it that is well-formed; the literal name is looked for anyway.
fn glob(name: &str, naming: &Naming) -> Option<Wanted> {
    let Naming::Named { namespace, rule } = naming else {
        return None;
    };
    let pattern = name
        .contains(['*', '?', '['])
        .then(|| Pattern::new(name).ok())??;
    Some(Wanted::Glob {
        namespace: namespace.clone(),
        rule: *rule,
        pattern,
    })
}

impl Wanted {
    fn lock(&self) -> Option<&Lock> {
        match self {
            Self::Lock(lock) => Some(lock),
            Self::All | Self::Glob { .. } | Self::Namespace(_) => None,
        }
    }

    fn is(&self, view: &LockView) -> bool {
        match self {
            Self::All => true,
            Self::Lock(Lock { key, .. }) => view.key == *key || view.lock_key == *key,
            Self::Glob {
                namespace,
                rule,
                pattern,
            } => view.lock_name.as_ref().is_some_and(|lock| {
                lock.namespace == *namespace && lock.rule == *rule && pattern.matches(&lock.name)
            }),
            Self::Namespace(namespace) => match view.key {
                ShownKey::Lock(LockKey::Pair(first, _)) => first == *namespace,
                ShownKey::Lock(LockKey::Bigint(_)) | ShownKey::Extension(..) => false,
            },
        }
    }
}
