//! A table for people. On a terminal that is too narrow, the table wraps cells between words, then leaves out optional
//! columns, and at last shows each row as a block of lines.

use crate::printable::printable;
use comfy_table::{
    Attribute, Cell, CellAlignment, Color, ColumnConstraint, ContentArrangement, Table, Width, presets,
};
use delayq_look::Judgement;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::LazyLock;
use unicode_width::UnicodeWidthStr;

/// Stands for the escape character in the colours of a table until printed. Random, so that no text in a table can
/// imitate the marker.
pub(crate) static OWN_ESCAPE: LazyLock<String> =
    LazyLock::new(|| format!("<{:016x}>", RandomState::new().hash_one(0)));

/// Blanks between two columns.
const GAP: usize = 2;
/// Longer words are broken. A generated id has 37 characters.
const LONGEST_WORD: usize = 40;

/// A table under construction.
pub struct Rows {
    columns: Vec<Column>,
    rows: Vec<TableRow>,
    lively: bool,
    /// `None` does not limit the table.
    width: Option<u16>,
}

struct Column {
    name: String,
    is_right: bool,
    is_optional: bool,
}

struct TableRow {
    colour: Option<Color>,
    cells: Vec<String>,
}

// === impl Rows ===

impl Rows {
    /// The mark `>` before a name aligns the column to the right; the mark `?` before that makes the column optional.
    pub(crate) fn new(columns: &[&str], lively: bool, width: Option<u16>) -> Self {
        Self { columns: columns.iter().copied().map(Column::new).collect(), rows: Vec::new(), lively, width }
    }

    /// Adds a row.
    pub fn row<C: ToString>(&mut self, cells: impl IntoIterator<Item = C>) {
        self.rows.push(TableRow::new(None, cells));
    }

    /// Adds a row that is coloured on a terminal; `true` is good, `false` is bad.
    pub fn judged<C: ToString>(
        &mut self,
        judgement: impl Into<Judgement>,
        cells: impl IntoIterator<Item = C>,
    ) {
        let colour = match judgement.into() {
            Judgement::Good => Color::Green,
            Judgement::Warning => Color::Yellow,
            Judgement::Bad => Color::Red,
        };
        self.rows.push(TableRow::new(Some(colour).filter(|_| self.lively), cells));
    }

    /// The table as text, without trailing blanks.
    pub fn text(self) -> String {
        let mut shown: Vec<usize> = (0..self.columns.len()).collect();
        let Some(width) = self.width else { return self.finish(self.table(&shown)) };
        let mut left_out = Vec::new();
        while self.narrowest(&shown) > width.into() {
            let Some(at) = shown.iter().rposition(|&at| self.columns[at].is_optional) else {
                return self.blocks(width);
            };
            left_out.insert(0, self.columns[shown.remove(at)].name.as_str());
        }
        let mut table = self.table(&shown);
        table.set_content_arrangement(ContentArrangement::Dynamic).set_width(width);
        for (index, &at) in shown.iter().enumerate() {
            let gap = if index + 1 == shown.len() { 0 } else { GAP };
            if let (Some(column), Ok(words)) =
                (table.column_mut(index), u16::try_from(self.longest_word(at) + gap))
            {
                column.set_constraint(ColumnConstraint::LowerBoundary(Width::Fixed(words)));
            }
        }
        let note = match left_out.is_empty() {
            true => String::new(),
            false => {
                format!("\n(without {}: the terminal is too narrow; --json shows all)", left_out.join(", "))
            }
        };
        self.finish(table) + &note
    }

    fn table(&self, shown: &[usize]) -> Table {
        let mut table = plain();
        table.set_header(shown.iter().map(|&at| self.heading(at)));
        for (index, &at) in shown.iter().enumerate() {
            let column = table.column_mut(index).expect("the header has as many columns");
            column.set_padding((0, if index + 1 == shown.len() { 0 } else { GAP as u16 }));
            if self.columns[at].is_right {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        for row in &self.rows {
            table.add_row(shown.iter().map(|&at| row.cell(at)));
        }
        table
    }

    /// Shows each row as lines of a heading and a value.
    fn blocks(&self, width: u16) -> String {
        let block = |row: &TableRow| {
            let mut table = plain();
            table.set_content_arrangement(ContentArrangement::Dynamic).set_width(width);
            for at in 0..self.columns.len() {
                table.add_row([self.heading(at), row.cell(at)]);
            }
            if let Some(column) = table.column_mut(0) {
                column.set_padding((0, GAP as u16));
                column.set_constraint(ColumnConstraint::ContentWidth);
            }
            if let Some(column) = table.column_mut(1) {
                column.set_padding((0, 0));
            }
            self.finish(table)
        };
        self.rows.iter().map(block).collect::<Vec<_>>().join("\n\n")
    }

    fn heading(&self, at: usize) -> Cell {
        let cell = Cell::new(&self.columns[at].name);
        if self.lively { cell.add_attribute(Attribute::Bold) } else { cell }
    }

    /// The minimum width of these columns without a broken word.
    fn narrowest(&self, shown: &[usize]) -> usize {
        shown.iter().map(|&at| self.longest_word(at) + GAP).sum::<usize>() - GAP.min(shown.len())
    }

    fn longest_word(&self, at: usize) -> usize {
        let cells = self.rows.iter().filter_map(|row| row.cells.get(at)).map(String::as_str);
        let words = cells.chain([self.columns[at].name.as_str()]).flat_map(str::split_whitespace);
        words.map(UnicodeWidthStr::width).max().unwrap_or(0).clamp(1, LONGEST_WORD)
    }

    fn finish(&self, mut table: Table) -> String {
        if self.lively {
            table.enforce_styling();
        } else {
            table.force_no_tty();
        }
        let text = table.to_string().replace('\u{1b}', &OWN_ESCAPE);
        text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
    }
}

// === impl Column ===

impl Column {
    fn new(name: &str) -> Self {
        let (name, is_optional) = name.strip_prefix('?').map_or((name, false), |name| (name, true));
        let (name, is_right) = name.strip_prefix('>').map_or((name, false), |name| (name, true));
        Self { name: name.to_uppercase(), is_right, is_optional }
    }
}

// === impl TableRow ===

impl TableRow {
    fn new<C: ToString>(colour: Option<Color>, cells: impl IntoIterator<Item = C>) -> Self {
        let cells = cells.into_iter().map(|cell| printable(&cell.to_string()).into_owned());
        Self { colour, cells: cells.collect() }
    }

    fn cell(&self, at: usize) -> Cell {
        let cell = Cell::new(self.cells.get(at).map_or("", String::as_str));
        match self.colour {
            Some(colour) => cell.fg(colour),
            None => cell,
        }
    }
}

fn plain() -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    fn topics(width: Option<u16>) -> String {
        let mut rows = Rows::new(&["topic", ">ready", "?>delivered", "next due", "flow"], false, width);
        rows.row(["orders", "12", "3", "in 2days 7h", "at most 5.0/s"]);
        rows.judged(false, ["reminders/eu", "3", "1234567", "", "free"]);
        rows.text()
    }

    #[test]
    fn a_table_has_its_columns_aligned() {
        assert_eq!(
            topics(None),
            "TOPIC         READY  DELIVERED  NEXT DUE     FLOW\norders           12          3  in 2days 7h  \
             at most 5.0/s\nreminders/eu      3    1234567               free"
        );
        assert_eq!(topics(Some(80)), topics(None));
        let mut rows = Rows::new(&["topic"], true, None);
        rows.judged(true, ["orders"]);
        assert!(rows.text().contains(OWN_ESCAPE.as_str()));
    }

    #[test]
    fn no_word_is_broken_at_any_width_that_has_room_for_it() {
        let whole: Vec<String> = topics(None).split_whitespace().map(str::to_owned).collect();
        // The longest heading, a gap, and the longest word.
        for width in 23..100 {
            let text = topics(Some(width));
            assert!(
                text.lines().all(|line| line.chars().count() <= width.into() || line.contains("--json")),
                "{text}"
            );
            for word in &whole {
                let is_left_out =
                    text.contains("(without DELIVERED") && ["3", "1234567"].contains(&word.as_str());
                assert!(is_left_out || text.contains(word), "{width}: {word} is not in\n{text}");
            }
        }
    }

    #[test]
    fn a_chinese_word_takes_two_columns_a_letter() {
        let mut rows = Rows::new(&["name"], false, Some(9));
        rows.row(["订单通知 x"]);
        assert_eq!(rows.text(), "NAME\n订单通知\nx");
        let mut rows = Rows::new(&["name", "?state"], false, Some(14));
        rows.row(["订单通知", "ready"]);
        assert!(rows.text().contains("订单通知\n(without STATE"), "a broken word");
    }

    #[test]
    fn what_may_be_missed_goes_first_and_then_each_row_is_a_block() {
        assert!(
            topics(Some(40)).contains("(without DELIVERED: the terminal is too narrow; --json shows all)")
        );
        assert!(
            topics(Some(30)).starts_with(
                "TOPIC      orders\nREADY      12\nDELIVERED  3\nNEXT DUE   in 2days 7h\nFLOW       at most 5.0/s\n\nTOPIC"
            ),
            "{}",
            topics(Some(30))
        );
    }
}
