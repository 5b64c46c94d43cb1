//! Aligned lines, each a subject and what was found.

use comfy_table::{ColumnConstraint, ContentArrangement, Table, presets};

use crate::text::printable;

/// `width` is the terminal's, `None` where there is none and lines may be as long as they like.
pub fn render(findings: &[(&str, String)], width: Option<u16>) -> String {
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
