//! Who waits for whom: each waiter beneath one that it waits for.

use std::collections::BTreeMap;

use crate::inventory::{LockView, State};
use crate::key::ShownKey;

/// A line of the table, and the branch that leads to it.
pub struct Row<'a> {
    pub branch: String,
    pub view: &'a LockView,
}

/// How a tree is drawn: for a child with siblings below it and for the last one, before it and before its own.
struct Strokes {
    child: [&'static str; 2],
    last: [&'static str; 2],
}

const BOXES: Strokes = Strokes {
    child: ["├─ ", "│  "],
    last: ["└─ ", "   "],
};
const ASCII: Strokes = Strokes {
    child: ["|- ", "|  "],
    last: ["`- ", "   "],
};

/// One row for each lock, as they come.
pub fn flat(views: &[LockView]) -> Vec<Row<'_>> {
    let row = |view| Row {
        branch: String::new(),
        view,
    };
    views.iter().map(row).collect()
}

/// The locks of one server: a holder, its waiters beneath, and beneath a waiter the locks that its session holds.
///
/// Each lock is there once; one that waits for several stands beneath the first.
pub fn rows(views: &[LockView], is_utf8: bool) -> Vec<Row<'_>> {
    let parents = parents(views);
    let mut children = vec![Vec::new(); views.len()];
    let mut roots = Vec::new();
    for (at, parent) in parents.iter().enumerate() {
        match parent {
            Some(parent) => children[*parent].push(at),
            None => roots.push(at),
        }
    }
    let mut tree = Tree {
        views,
        children,
        strokes: if is_utf8 { BOXES } else { ASCII },
        is_drawn: vec![false; views.len()],
        rows: Vec::new(),
    };
    // Those of a deadlock have no root; it is about to be resolved.
    for root in roots.into_iter().chain(0..views.len()) {
        tree.draw(root, ["", ""]);
    }
    tree.rows
}

struct Tree<'a> {
    views: &'a [LockView],
    children: Vec<Vec<usize>>,
    strokes: Strokes,
    is_drawn: Vec<bool>,
    rows: Vec<Row<'a>>,
}

impl Tree<'_> {
    /// `branch` is what stands before this row, and before all beneath it.
    fn draw(&mut self, at: usize, [branch, beneath]: [&str; 2]) {
        if std::mem::replace(&mut self.is_drawn[at], true) {
            return;
        }
        self.rows.push(Row {
            branch: branch.to_owned(),
            view: &self.views[at],
        });
        let children = std::mem::take(&mut self.children[at]);
        let last = children.last().copied();
        for child in children {
            let strokes = if Some(child) == last {
                self.strokes.last
            } else {
                self.strokes.child
            };
            let [branch, beneath] = strokes.map(|stroke| format!("{beneath}{stroke}"));
            self.draw(child, [&branch, &beneath]);
        }
    }
}

/// A lock, or any slot of it, of a session, which is 0 for a prepared transaction, as `pg_blocking_pids` has it.
type Ownership<'a> = (Option<&'a str>, ShownKey, i32);

fn parents(views: &[LockView]) -> Vec<Option<usize>> {
    let mut held: BTreeMap<Ownership, usize> = BTreeMap::new();
    let mut awaited: BTreeMap<Ownership, usize> = BTreeMap::new();
    let mut waits: BTreeMap<i32, usize> = BTreeMap::new();
    let ownership = |view: &'_ LockView| (view.lock_key, view.pid.unwrap_or(0));
    for (at, view) in views.iter().enumerate() {
        let (key, pid) = ownership(view);
        let owned = (view.database.as_deref(), key, pid);
        match view.state {
            State::Held => held.entry(owned).or_insert(at),
            State::Waiting => {
                waits.entry(pid).or_insert(at);
                awaited.entry(owned).or_insert(at)
            }
        };
    }
    let parent = |(at, view): (usize, &LockView)| match view.state {
        State::Held => waits.get(&view.pid?).copied(),
        State::Waiting => {
            let of = |owners: &BTreeMap<Ownership, usize>| {
                let mut blockers = view.blocked_by.iter();
                let database = view.database.as_deref();
                blockers.find_map(|pid| owners.get(&(database, view.lock_key, *pid)).copied())
            };
            of(&held)
                .or_else(|| of(&awaited))
                .filter(|parent| *parent != at)
        }
    };
    views.iter().enumerate().map(parent).collect()
}
