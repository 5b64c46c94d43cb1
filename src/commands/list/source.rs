//! A place where locks live, and what is found there.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::time::SystemTime;

use super::search::Search;
use crate::cli::{Format, ListArgs};
use crate::connection::LinkView;
use crate::exit::Outcome;
use crate::inventory::{self, Inventory, LockView, Scope};
use crate::session::Session;

/// Where to look, and the session for it, which stays open between two looks.
pub struct Source {
    search: Search,
    session: Option<Session>,
}

/// What there was at one moment.
pub struct Found {
    pub at: SystemTime,
    pub places: Vec<Seen>,
    /// What a person should know of it.
    pub notes: BTreeSet<String>,
}

/// What there was in one place.
pub struct Seen {
    pub link: LinkView,
    pub locks: Vec<LockView>,
}

impl Found {
    /// Those of all places.
    pub fn locks(&self) -> impl Iterator<Item = &LockView> {
        self.places.iter().flat_map(|place| &place.locks)
    }
}

/// Looks at one place after the other.
pub async fn read(
    sources: &mut [Source],
    args: &ListArgs,
) -> anyhow::Result<ControlFlow<Outcome, Found>> {
    let mut found = Found {
        at: SystemTime::now(),
        places: Vec::new(),
        notes: BTreeSet::new(),
    };
    for source in sources {
        if let ControlFlow::Break(interrupted) = source.read(args, &mut found).await? {
            return Ok(ControlFlow::Break(interrupted));
        }
        if args.watch.is_none() {
            source.close().await;
        }
    }
    Ok(ControlFlow::Continue(found))
}

impl Source {
    pub fn new(search: Search) -> Self {
        Self {
            search,
            session: None,
        }
    }

    /// One that fails leaves no session behind, so that the next look begins with another.
    async fn read(
        &mut self,
        args: &ListArgs,
        found: &mut Found,
    ) -> anyhow::Result<ControlFlow<Outcome>> {
        let opened = match self.session.take() {
            Some(session) => ControlFlow::Continue(session),
            None => self.open(args).await?,
        };
        let mut session = match opened {
            ControlFlow::Continue(session) => session,
            ControlFlow::Break(interrupted) => return Ok(ControlFlow::Break(interrupted)),
        };
        let scope = if args.all_databases {
            Scope::AllDatabases
        } else {
            Scope::CurrentDatabase
        };
        let Inventory {
            mut locks,
            is_standby,
        } = inventory::read(&mut session, &scope).await?;
        if is_standby && args.quiet {
            return Err(crate::commands::standby());
        }
        locks.retain(|view| self.search.accepts(view));
        let standby = "this server is a standby: the locks of the primary are not shown";
        found.notes.extend(is_standby.then(|| standby.to_owned()));
        let is_for_people = super::format(args) == Format::Table && !args.quiet;
        if is_for_people && locks.iter().any(LockView::is_partly_hidden) {
            let grant = inventory::grant_to_see(&mut session).await?;
            let hint = |grant| format!("some of it is hidden from this role; {grant} shows it");
            found.notes.extend(grant.map(hint));
        }
        if !args.quiet {
            inventory::name_owners(&mut session, &mut locks).await;
        }
        found.notes.extend(inventory::collisions(&locks));
        let link = session.link(&self.search.settings);
        found.places.push(Seen { link, locks });
        self.session = Some(session);
        Ok(ControlFlow::Continue(()))
    }

    async fn open(&self, args: &ListArgs) -> anyhow::Result<ControlFlow<Outcome, Session>> {
        let mut opened = crate::commands::open(&self.search.settings, "pglock list").await?;
        if let (ControlFlow::Continue(session), Some(_)) = (&mut opened, &args.watch) {
            session.survive_idling().await?;
        }
        Ok(opened)
    }

    pub async fn close(&mut self) {
        if let Some(session) = self.session.take() {
            session.close().await;
        }
    }
}
