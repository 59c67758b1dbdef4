//! The live screen: the shown page, the sort order, the filter and the lines. Pure.

use super::frame::{Frame, Line, Page, Table};
use crate::output::{Judgement, counted};
use crate::printable::printable;
use std::cmp::Ordering;
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

/// A pressed key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key {
    Letter(char),
    Next,
    Previous,
    Up,
    Down,
    Enter,
    Erase,
    Escape,
    Interrupt,
}

/// The state of the screen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Screen {
    page: Page,
    /// The column by which rows are sorted; `None` keeps the order of the frame.
    sorted_by: Option<usize>,
    descending: bool,
    filter: String,
    is_typing: bool,
    pub(super) is_paused: bool,
    /// Number of rows that are scrolled away.
    scrolled: usize,
}

/// A line and its colour.
pub(super) type Shown = (Option<Judgement>, String);

const HELP: &str = "1-4 tab page  s sort  r reverse  / filter  p pause  q quit";

// === impl Screen ===

impl Screen {
    /// Applies a key; returns whether to end.
    pub(super) fn press(&mut self, key: Key) -> bool {
        match key {
            Key::Interrupt => return true,
            Key::Enter | Key::Escape if self.is_typing => {
                self.is_typing = false;
                if key == Key::Escape {
                    self.filter.clear();
                }
            }
            Key::Erase if self.is_typing => _ = self.filter.pop(),
            Key::Letter(letter) if self.is_typing => self.filter.push(letter),
            Key::Letter('q') | Key::Escape => return true,
            Key::Letter('/') => self.is_typing = true,
            Key::Letter('p' | ' ') => self.is_paused = !self.is_paused,
            Key::Letter('r') => self.descending = !self.descending,
            Key::Letter('s') => self.sorted_by = self.sorted_by.map_or(Some(0), |column| Some(column + 1)),
            Key::Letter(digit @ '1'..='4') => self.turn_to(Page::ALL[usize::from(digit as u8 - b'1')]),
            Key::Next => self.turn_by(1),
            Key::Previous => self.turn_by(Page::ALL.len() - 1),
            Key::Up => self.scrolled = self.scrolled.saturating_sub(1),
            Key::Down => self.scrolled += 1,
            Key::Letter(_) | Key::Enter | Key::Erase => {}
        }
        false
    }

    fn turn_by(&mut self, pages: usize) {
        let at = Page::ALL.iter().position(|page| *page == self.page).unwrap_or(0);
        self.turn_to(Page::ALL[(at + pages) % Page::ALL.len()]);
    }

    fn turn_to(&mut self, page: Page) {
        (self.page, self.sorted_by, self.scrolled) = (page, None, 0);
    }

    /// The lines that fit the terminal; the last line is the help, or the filter.
    pub(super) fn lines(&mut self, frame: &Frame, width: usize, height: usize) -> Vec<Shown> {
        let mut table = frame.table(self.page);
        let needle = self.filter.to_lowercase();
        table.lines.retain(|line| line.1.iter().any(|cell| cell.to_lowercase().contains(&needle)));
        let Table { columns, lines: mut rows } = narrowed(table, width);
        // Behind the last column, rows are unsorted again.
        self.sorted_by = self.sorted_by.filter(|&column| column < columns.len());
        if let Some(column) = self.sorted_by {
            rows.sort_by(|(_, one), (_, other)| compare(&one[column], &other[column]));
        }
        if self.descending {
            rows.reverse();
        }
        let mut lines = vec![(None, self.title(rows.len())), (None, String::new())];
        lines.extend(frame.unseen.iter().map(|why| (Some(Judgement::Bad), printable(why).into_owned())));
        let widths = widths(&columns, &rows, width);
        lines.push((None, self.header(&columns, &widths)));
        let room = height.saturating_sub(lines.len() + 1);
        self.scrolled = self.scrolled.min(rows.len().saturating_sub(room));
        for (judgement, cells) in rows.iter().skip(self.scrolled).take(room) {
            let cells = cells.iter().zip(&columns).zip(&widths);
            let cells = cells.map(|((cell, column), &width)| fitted(cell, is_right(column), width));
            lines.push((*judgement, cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()));
        }
        lines.resize(height.saturating_sub(1), (None, String::new()));
        let foot =
            if self.is_typing { format!("filter: {}_", printable(&self.filter)) } else { HELP.to_owned() };
        lines.push((None, foot));
        lines.into_iter().map(|(judgement, line)| (judgement, cut(&line, width))).collect()
    }

    fn title(&self, rows: usize) -> String {
        let pages = Page::ALL.map(|page| match page == self.page {
            true => format!("[{}]", page.name()),
            false => page.name().to_owned(),
        });
        let filter = if self.filter.is_empty() { String::new() } else { format!(", with {:?}", self.filter) };
        let reversed = if self.descending { ", reversed" } else { "" };
        let paused = if self.is_paused { ", PAUSED" } else { "" };
        format!(
            "{}   {}{}{reversed}{paused}",
            pages.join(" "),
            counted(rows as u64, "row"),
            printable(&filter)
        )
    }

    fn header(&self, columns: &[&str], widths: &[usize]) -> String {
        let named = columns.iter().zip(widths).enumerate().map(|(number, (column, &width))| {
            let mark = if self.sorted_by == Some(number) { "*" } else { "" };
            fitted(&format!("{}{mark}", name(column).to_uppercase()), is_right(column), width)
        });
        named.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    }
}

fn name(column: &str) -> &str {
    column.trim_start_matches(['?', '>'])
}

fn is_right(column: &str) -> bool {
    column.trim_start_matches('?').starts_with('>')
}

/// Leaves out optional columns, the last first, until the remaining columns have room for all cells.
fn narrowed(mut table: Table, width: usize) -> Table {
    while whole(&widest(&table.columns, &table.lines)) > width {
        let Some(column) = table.columns.iter().rposition(|column| column.starts_with('?')) else { break };
        table.columns.remove(column);
        for (_, cells) in &mut table.lines {
            cells.remove(column);
        }
    }
    table
}

/// Width of a line of columns.
fn whole(widths: &[usize]) -> usize {
    widths.iter().sum::<usize>() + 2 * widths.len().saturating_sub(1)
}

/// The width of each column's widest cell; at least the width of the name with the mark of the sorted column.
fn widest(columns: &[&str], rows: &[Line]) -> Vec<usize> {
    let cell = |column: usize| rows.iter().map(move |(_, cells)| printable(&cells[column]).width());
    let widest =
        |(column, heading): (usize, &&str)| cell(column).max().unwrap_or(0).max(name(heading).len() + 1);
    columns.iter().enumerate().map(widest).collect()
}

/// The width of each column: as wide as the widest cell, but the widest columns give way until all columns fit.
fn widths(columns: &[&str], rows: &[Line], width: usize) -> Vec<usize> {
    let mut widths = widest(columns, rows);
    while whole(&widths) > width {
        match widths.iter_mut().max() {
            Some(widest) if *widest > 4 => *widest -= 1,
            _ => break,
        }
    }
    widths
}

fn fitted(cell: &str, is_right: bool, width: usize) -> String {
    let cell = cut(&printable(cell), width);
    let blanks = " ".repeat(width.saturating_sub(cell.width()));
    if is_right { blanks + &cell } else { cell + &blanks }
}

/// The text in at most this many columns of the terminal.
fn cut(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let mut left = width.saturating_sub(1);
    let fits = |letter: &char| {
        let rest = left.checked_sub(letter.width().unwrap_or(0));
        rest.inspect(|&rest| left = rest).is_some()
    };
    text.chars().take_while(fits).chain(['…']).collect()
}

/// Compares numbers by value, whatever unit follows, and all other text by letters.
fn compare(one: &str, other: &str) -> Ordering {
    let number = |text: &str| {
        let end = text.find(|c: char| !(c.is_ascii_digit() || ".-".contains(c))).unwrap_or(text.len());
        text[..end].parse::<f64>().ok()
    };
    match (number(one), number(other)) {
        (Some(one), Some(other)) => one.total_cmp(&other),
        (one, other) => one.is_some().cmp(&other.is_some()),
    }
    .then_with(|| one.cmp(other))
}

#[cfg(test)]
mod tests;
