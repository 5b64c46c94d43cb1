//! For people: the table of `list`, which fits the terminal.

use anstyle::{AnsiColor, Style};

use super::layout::{self, Cell, Column};
use super::look::Look;
use super::name;
use super::tree::Row;
use crate::inventory::{LockView, State};
use crate::key::Mode;

/// What a column shows of a lock; unknown is `?`.
struct Field {
    title: &'static str,
    rank: u8,
    least: usize,
    value: fn(&LockView) -> Option<String>,
}

const fn field(
    title: &'static str,
    rank: u8,
    least: usize,
    value: fn(&LockView) -> Option<String>,
) -> Field {
    Field {
        title,
        rank,
        least,
        value,
    }
}

/// What is copied, or says nothing when it is cut off.
const WHOLE: usize = usize::MAX;
const KEY: &str = "KEY";
/// The rank of the key where a name that is cut off does not stand for it: after PID.
const KEY_OF_CUT_NAME: u8 = 4;
/// The last ranks go first where there is no room: the key, which the name stands for, and the mode.
const NARROW: [Field; 8] = [
    field(KEY, 12, WHOLE, |view| Some(view.key.to_string())),
    field("STATE", 1, WHOLE, |view| Some(state(view.state).to_owned())),
    field("MODE", 13, WHOLE, |view| Some(mode(view.mode).to_owned())),
    field("PID", 3, WHOLE, pid),
    field("USER", 8, 10, |view| view.user.clone()),
    field("HOST", 5, 12, |view| {
        view.host.clone().or_else(|| view.client.clone())
    }),
    field("SINCE", 2, WHOLE, LockView::age),
    field("COMMAND", 10, 12, |view| view.command.clone()),
];
const APPLICATION: Field = field("APPLICATION", 11, 12, |view| view.application_name.clone());
const CLIENT: Field = field("CLIENT", 9, 21, |view| view.client.clone());
const DATABASE: Field = field("DATABASE", 7, 12, |view| view.database.clone());
const BLOCKED_BY: Field = field("BLOCKED BY", 6, 12, |view| Some(blocked_by(view)));

/// From this many columns on a terminal shows the wide table without being asked.
const WIDE_TERMINAL: usize = 200;

/// What was asked for beyond the usual columns.
#[derive(Clone, Copy, Debug)]
pub struct More {
    pub wide: bool,
    pub database: bool,
}

/// A line of titles, and one for each row.
pub fn render(rows: &[Row<'_>], more: More, look: Look) -> String {
    let is_wide = more.wide || look.width.is_some_and(|width| width >= WIDE_TERMINAL);
    let further: &[Field] = match (is_wide, more.database) {
        (true, _) => &[APPLICATION, CLIENT, DATABASE, BLOCKED_BY],
        (false, true) => &[DATABASE],
        (false, false) => &[],
    };
    let mut columns = vec![names(rows, look, true)];
    columns.extend(
        NARROW
            .iter()
            .chain(further)
            .map(|field| field.of(rows, look)),
    );
    if columns[0].may_be_cut()
        && let Some(key) = columns.iter_mut().find(|column| column.title == KEY)
    {
        key.rank = KEY_OF_CUT_NAME;
    }
    let mut widths = layout::fit(&columns, look.width);
    let is_key = |column: &Column| column.title == KEY;
    if let Some(key) = columns.iter().position(is_key)
        && widths[key].is_none()
    {
        columns.remove(key);
        columns[0] = names(rows, look, false);
        widths = layout::fit(&columns, look.width);
    }
    layout::draw(&columns, &widths, look)
}

/// The first column. It may take a third of a line before any other goes for it.
fn names(rows: &[Row<'_>], look: Look, key_is_shown: bool) -> Column {
    let cell = |row: &Row<'_>| {
        let name = if key_is_shown {
            name::words(row.view, look.is_utf8)
        } else {
            Some(name::words_or_key(row.view, look.is_utf8))
        };
        let mut cell = cell(name, look);
        if row.view.name.is_none() {
            cell.style = Style::new().dimmed();
        }
        cell.text.insert_str(0, &row.branch);
        cell
    };
    Column {
        title: "NAME",
        rank: 0,
        least: look.width.map_or(WHOLE, |width| (width / 3).max(12)),
        cells: rows.iter().map(cell).collect(),
    }
}

impl Field {
    fn of(&self, rows: &[Row<'_>], look: Look) -> Column {
        let cell = |row: &Row<'_>| {
            let mut cell = cell((self.value)(row.view), look);
            if self.title == "STATE" && row.view.state == State::Waiting {
                cell.style = AnsiColor::Yellow.on_default();
            }
            cell
        };
        Column {
            title: self.title,
            rank: self.rank,
            least: self.least,
            cells: rows.iter().map(cell).collect(),
        }
    }
}

fn cell(value: Option<String>, look: Look) -> Cell {
    match value {
        Some(value) => Cell {
            text: look.shown(&value),
            style: Style::new(),
        },
        None => Cell {
            text: "?".to_owned(),
            style: Style::new().dimmed(),
        },
    }
}

fn state(state: State) -> &'static str {
    match state {
        State::Held => "held",
        State::Waiting => "waiting",
    }
}

fn mode(mode: Mode) -> &'static str {
    match mode {
        Mode::Exclusive => "exclusive",
        Mode::Shared => "shared",
    }
}

fn pid(view: &LockView) -> Option<String> {
    if view.prepared {
        Some("prepared".to_owned())
    } else {
        view.pid.map(|pid| pid.to_string())
    }
}

/// The backends, among which 0 is a prepared transaction (`pg_blocking_pids`).
fn blocked_by(view: &LockView) -> String {
    let pids = view.blocked_by.iter().map(|pid| match pid {
        0 => "prepared".to_owned(),
        pid => pid.to_string(),
    });
    pids.collect::<Vec<_>>().join(" ")
}
