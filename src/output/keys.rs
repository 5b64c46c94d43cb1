//! The keys that schemes make of a name.

use anstyle::Style;

use super::layout::{self, Cell, Column};
use super::look::Look;

/// Title, rank and least width: a key is copied, and says nothing when it is cut off.
const COLUMNS: [(&str, u8, usize); 3] = [
    ("SCHEME", 1, 12),
    ("KEY", 0, usize::MAX),
    ("FORM", 2, usize::MAX),
];

/// A scheme, a key and its form in each row, which takes one line.
pub fn render(keys: impl IntoIterator<Item = [String; 3]>, look: Look) -> String {
    let mut columns = COLUMNS.map(|(title, rank, least)| Column {
        title,
        rank,
        least,
        cells: Vec::new(),
    });
    for row in keys {
        for (column, text) in columns.iter_mut().zip(row) {
            let style = Style::new();
            column.cells.push(Cell { text, style });
        }
    }
    layout::draw(&columns, &layout::fit(&columns, look.width), look)
}
