//! For people: the table of `list`, and the findings of `check`, that fit the terminal.

use comfy_table::{ColumnConstraint, ContentArrangement, Table, presets};

use crate::inventory::{LockView, State};
use crate::key::Mode;
use crate::text::printable;

/// A column: its title and what it shows; unknown is `?`.
type Column = (&'static str, fn(&LockView) -> Option<String>);

const NARROW: [Column; 9] = [
    ("NAME", name),
    ("KEY", |view| Some(view.key.to_string())),
    ("STATE", |view| Some(state(view.state).to_owned())),
    ("MODE", |view| Some(mode(view.mode).to_owned())),
    ("PID", pid),
    ("USER", |view| view.user.clone()),
    ("HOST", |view| {
        view.host.clone().or_else(|| view.client.clone())
    }),
    ("SINCE", LockView::age),
    ("COMMAND", |view| view.command.clone()),
];

const WIDE: [Column; 4] = [
    ("APPLICATION", |view| view.application_name.clone()),
    ("CLIENT", |view| view.client.clone()),
    ("DATABASE", |view| view.database.clone()),
    ("BLOCKED BY", |view| Some(blocked_by(view))),
];

/// What is copied from a terminal to be used elsewhere; the wide table has no room for that.
const UNBROKEN: [&str; 2] = ["KEY", "PID"];

/// From this many columns on a terminal shows the wide table without being asked.
const WIDE_TERMINAL: u16 = 200;

/// `width` is the terminal's, `None` where there is none and lines may be as long as they like.
pub fn render(views: &[LockView], width: Option<u16>, wide: bool) -> String {
    let wide = wide || width.is_some_and(|width| width >= WIDE_TERMINAL);
    let more = if wide { &WIDE[..] } else { &[] };
    let columns: Vec<&Column> = NARROW.iter().chain(more).collect();
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    if let Some(width) = width {
        table.set_content_arrangement(ContentArrangement::Dynamic);
        table.set_width(width);
    }
    table.set_header(columns.iter().map(|(title, _)| *title));
    for view in views {
        table.add_row(columns.iter().map(|(_, value)| match value(view) {
            Some(value) => printable(&value),
            None => "?".to_owned(),
        }));
    }
    for (column, (title, _)) in table.column_iter_mut().zip(&columns) {
        column.set_padding((0, 2));
        if !wide && UNBROKEN.contains(title) {
            column.set_constraint(ColumnConstraint::ContentWidth);
        }
    }
    table.trim_fmt() + "\n"
}

/// A name's keys, each by a scheme.
pub fn keys(keys: impl IntoIterator<Item = [String; 3]>, width: Option<u16>) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    if let Some(width) = width {
        table.set_content_arrangement(ContentArrangement::Dynamic);
        table.set_width(width);
    }
    table.set_header(["SCHEME", "KEY", "FORM"]);
    table.add_rows(keys);
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    table.trim_fmt() + "\n"
}

/// Aligned lines, each a subject and what was found.
pub fn findings(findings: &[(&str, String)], width: Option<u16>) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    if let Some(width) = width {
        table.set_content_arrangement(ContentArrangement::Dynamic);
        table.set_width(width);
    }
    for (subject, found) in findings {
        table.add_row([format!("{subject}:"), printable(found)]);
    }
    for (at, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, 1));
        if at == 0 {
            column.set_constraint(ColumnConstraint::ContentWidth);
        }
    }
    table.trim_fmt() + "\n"
}

/// A name that pglock gave, or in parentheses whose lock it is.
fn name(view: &LockView) -> Option<String> {
    let name = view.lock_name.as_ref().map(ToString::to_string);
    name.or_else(|| Some(format!("({})", view.program.as_ref()?)))
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

fn blocked_by(view: &LockView) -> String {
    let pids: Vec<String> = view.blocked_by.iter().map(ToString::to_string).collect();
    pids.join(" ")
}
