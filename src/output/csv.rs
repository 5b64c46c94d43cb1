//! `list --format csv` (RFC 4180): the same keys as JSON in the header; unknown is empty.

use anyhow::Context as _;
use serde_json::Value;

use crate::inventory::LockView;
use crate::text::printable;

/// The header, also where there is no lock to show.
const COLUMNS: [&str; 23] = [
    "name",
    "namespace",
    "key",
    "form",
    "state",
    "mode",
    "database",
    "pid",
    "user",
    "host",
    "wrapper_pid",
    "client",
    "application_name",
    "backend_start",
    "since",
    "seconds",
    "command",
    "program",
    "blocked_by",
    "prepared",
    "slot",
    "slots",
    "scheme",
];

/// For a terminal, text from elsewhere is escaped; a file gets it as it is.
pub fn render<'a>(
    views: impl Iterator<Item = &'a LockView>,
    for_terminal: bool,
) -> anyhow::Result<String> {
    let mut writer = csv::WriterBuilder::new()
        .terminator(csv::Terminator::CRLF)
        .from_writer(Vec::new());
    writer.write_record(COLUMNS)?;
    for view in views {
        let object = serde_json::to_value(view)?;
        let shown = |value| {
            if for_terminal {
                printable(&cell(value))
            } else {
                cell(value)
            }
        };
        let cells = COLUMNS.map(|column| object.get(column).map(shown));
        let cells: Option<Vec<String>> = cells.into_iter().collect();
        writer.write_record(cells.context("a column that JSON does not have")?)?;
    }
    Ok(String::from_utf8(writer.into_inner()?)?)
}

fn cell(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(cell).collect::<Vec<_>>().join(" "),
        other => other.to_string(),
    }
}
