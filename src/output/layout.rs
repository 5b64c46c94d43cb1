//! Columns that fit a line: the widths they get, and what is left out or cut off.

use std::fmt::Write as _;

use anstyle::Style;
use unicode_width::UnicodeWidthStr as _;

use super::look::Look;

/// Blanks between two columns.
const GAP: usize = 2;

/// A title and what stands below it.
pub struct Column {
    pub title: &'static str,
    /// Of columns that do not fit the one with the highest goes first; room that is left goes to the lowest.
    pub rank: u8,
    /// It is never cut shorter than that, and goes instead.
    pub least: usize,
    pub cells: Vec<Cell>,
}

/// One line of text, free of control characters.
pub struct Cell {
    pub text: String,
    pub style: Style,
}

impl Column {
    /// Whether some of it is longer than what it is sure to get.
    pub fn may_be_cut(&self) -> bool {
        self.natural_width() > self.least
    }

    fn natural_width(&self) -> usize {
        let cells = self.cells.iter().map(|cell| width(&cell.text));
        cells.max().unwrap_or(0).max(self.title.len())
    }
}

/// What becomes of each column: its width, or `None` where there is no room for it.
pub fn fit(columns: &[Column], room: Option<usize>) -> Vec<Option<usize>> {
    let natural: Vec<usize> = columns.iter().map(Column::natural_width).collect();
    let Some(room) = room else {
        return natural.into_iter().map(Some).collect();
    };
    let mut kept: Vec<usize> = (0..columns.len()).collect();
    kept.sort_by_key(|at| columns[*at].rank);
    let least = |at: &usize| natural[*at].min(columns[*at].least);
    let needed =
        |kept: &[usize]| kept.iter().map(least).sum::<usize>() + GAP * kept.len().saturating_sub(1);
    while kept.len() > 1 && needed(&kept) > room {
        kept.pop();
    }
    let mut widths = vec![None; columns.len()];
    let mut left = room.saturating_sub(needed(&kept));
    for at in kept {
        let more = left.min(natural[at] - least(&at));
        left -= more;
        widths[at] = Some((least(&at) + more).min(room));
    }
    widths
}

/// A line of titles and one for each row, each with its end.
pub fn draw(columns: &[Column], widths: &[Option<usize>], look: Look) -> String {
    let shown: Vec<(&Column, usize)> = columns
        .iter()
        .zip(widths)
        .filter_map(|(column, width)| Some((column, (*width)?)))
        .collect();
    let titles = shown
        .iter()
        .map(|(column, width)| (column.title, Style::new().bold(), *width));
    let mut text = line(titles, look);
    let rows = columns.first().map_or(0, |column| column.cells.len());
    for row in 0..rows {
        let cells = shown.iter().map(|(column, width)| {
            let cell = &column.cells[row];
            (cell.text.as_str(), cell.style, *width)
        });
        text += &line(cells, look);
    }
    text
}

fn line<'a>(cells: impl Iterator<Item = (&'a str, Style, usize)>, look: Look) -> String {
    let mut line = String::new();
    // Blanks come only before something, so that no line ends in them.
    let mut blanks = 0;
    for (text, style, room) in cells {
        let text = cut(text, room, look.ellipsis());
        if !text.is_empty() {
            line.extend(std::iter::repeat_n(' ', blanks));
            blanks = 0;
            let style = if look.is_coloured {
                style
            } else {
                Style::new()
            };
            // Writing to a String cannot fail.
            let _ = write!(line, "{style}{text}{style:#}");
        }
        blanks += room + GAP - width(&text);
    }
    line + "\n"
}

/// As much of a text as fits, with an ellipsis where something is missing.
pub fn cut(text: &str, room: usize, ellipsis: &str) -> String {
    if width(text) <= room {
        return text.to_owned();
    }
    let room_for_text = room.saturating_sub(width(ellipsis));
    let ends = text.char_indices().map(|(at, c)| at + c.len_utf8());
    let fitting = ends.take_while(|end| width(&text[..*end]) <= room_for_text);
    let kept = &text[..fitting.last().unwrap_or(0)];
    let ellipsis: String = ellipsis.chars().take(room).collect();
    format!("{kept}{ellipsis}")
}

/// How many of a terminal's columns a text takes.
fn width(text: &str) -> usize {
    if text.is_ascii() {
        text.len()
    } else {
        text.width()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(title: &'static str, rank: u8, least: usize, text: &str) -> Column {
        let cell = Cell {
            text: text.to_owned(),
            style: Style::new(),
        };
        Column {
            title,
            rank,
            least,
            cells: vec![cell],
        }
    }

    #[test]
    fn the_last_in_rank_is_cut_first_and_goes_first() {
        let columns = [
            column("A", 0, 6, "aaaaaaaaaa"),
            column("B", 2, 4, "bbbbbbbbbb"),
            column("C", 1, usize::MAX, "ccccc"),
        ];
        let fit = |room| fit(&columns, room);
        assert_eq!(fit(None), [Some(10), Some(10), Some(5)]);
        assert_eq!(fit(Some(29)), [Some(10), Some(10), Some(5)]);
        assert_eq!(fit(Some(26)), [Some(10), Some(7), Some(5)]);
        assert_eq!(fit(Some(20)), [Some(7), Some(4), Some(5)]);
        assert_eq!(fit(Some(18)), [Some(10), None, Some(5)]);
        assert_eq!(fit(Some(12)), [Some(10), None, None]);
        assert_eq!(fit(Some(3)), [Some(3), None, None]);
    }

    #[test]
    fn a_text_is_cut_to_the_room_whatever_its_characters_take() {
        assert_eq!(cut("abcdef", 6, "…"), "abcdef");
        assert_eq!(cut("abcdef", 5, "…"), "abcd…");
        assert_eq!(cut("abcdef", 5, "..."), "ab...");
        assert_eq!(cut("漢漢漢", 5, "…"), "漢漢…");
        assert_eq!(cut("漢漢漢", 4, "…"), "漢…");
        assert_eq!(cut("abcdef", 1, "..."), ".");
    }
}
