//! The keys that schemes make of a name.

use comfy_table::{ContentArrangement, Table, presets};

/// A scheme, a key and its form in each row; `width` is the terminal's, if there is one.
pub fn render(keys: impl IntoIterator<Item = [String; 3]>, width: Option<u16>) -> String {
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
