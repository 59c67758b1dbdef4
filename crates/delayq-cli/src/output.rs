//! What is printed: tables for people, JSON for programs, colour only on a terminal. All of it is [`printable`].

use crate::failure;
use crate::printable::{printable, printable_lines};
use comfy_table::{Attribute, Cell, CellAlignment, ContentArrangement, Table, presets};
use delayq::UnixMillis;
use delayq_service::Fault;
use rustix::termios::tcgetwinsize;
use serde::Serialize;
use serde_json::Value;
use std::hash::{BuildHasher as _, RandomState};
use std::io::{IsTerminal, Write};
use std::sync::LazyLock;

pub use delayq_service::when::time;

/// Stands for the escape character in the colours of a table until it is printed. Nobody who wrote what the table shows
/// could guess it.
static OWN_ESCAPE: LazyLock<String> = LazyLock::new(|| format!("<{:016x}>", RandomState::new().hash_one(0)));

/// How to print.
#[derive(Clone, Copy, Debug)]
pub struct Output {
    /// JSON instead of tables.
    pub json: bool,
    /// Whether colour and moving bars are wanted on standard output.
    pub lively: bool,
    /// The columns of the terminal that tables have to fit; `None`: as wide as they are.
    pub width: Option<u16>,
}

/// What a row says of its subject, as its colour on a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Judgement {
    /// Green.
    Good,
    /// Yellow.
    Warning,
    /// Red.
    Bad,
}

/// A table under construction.
pub struct Rows {
    table: Table,
    lively: bool,
}

// === impl Output ===

impl Output {
    /// Looks at the terminal and at `NO_COLOR`.
    #[allow(clippy::disallowed_methods, reason = "the one module that knows about the terminal")]
    pub fn of_process(json: bool) -> Self {
        let no_colour = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let stdout = std::io::stdout();
        let terminal = !json && stdout.is_terminal();
        let width = || tcgetwinsize(stdout).ok().map(|size| size.ws_col).filter(|&columns| columns > 0);
        Self { json, lively: terminal && !no_colour, width: if terminal { width() } else { None } }
    }

    /// Whether tables and sentences go to a terminal.
    pub fn is_terminal(self) -> bool {
        !self.json && std::io::stdout().is_terminal()
    }

    /// A table with these columns; those that begin with `>` are aligned to the right.
    pub fn rows(self, columns: &[&str]) -> Rows {
        let mut table = Table::new();
        table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
        if let Some(width) = self.width {
            table.set_content_arrangement(ContentArrangement::Dynamic).set_width(width);
        }
        let header = columns.iter().map(|name| {
            let cell = Cell::new(name.trim_start_matches('>').to_uppercase());
            if self.lively { cell.add_attribute(Attribute::Bold) } else { cell }
        });
        table.set_header(header);
        for (index, name) in columns.iter().enumerate() {
            if let Some(column) = table.column_mut(index) {
                column.set_padding((0, 2));
                if name.starts_with('>') {
                    column.set_cell_alignment(CellAlignment::Right);
                }
            }
        }
        Rows { table, lively: self.lively }
    }

    /// Prints one of the two: the value as JSON, or what the table says.
    ///
    /// # Errors
    /// Standard output cannot be written.
    pub fn print(self, value: &impl Serialize, table: impl FnOnce() -> String) -> Result<(), Fault> {
        if self.json {
            let text = serde_json::to_string_pretty(value).expect("what is printed is made of plain values");
            return say(&text);
        }
        say(&table())
    }

    /// Prints one value as one line of JSON, or a line of text.
    ///
    /// # Errors
    /// Standard output cannot be written.
    pub fn line(self, value: &impl Serialize, text: impl FnOnce() -> String) -> Result<(), Fault> {
        if self.json {
            return say(&serde_json::to_string(value).expect("what is printed is made of plain values"));
        }
        say(&text())
    }
}

// === impl Judgement ===

impl From<bool> for Judgement {
    fn from(good: bool) -> Self {
        if good { Self::Good } else { Self::Bad }
    }
}

// === impl Rows ===

impl Rows {
    /// Adds a row.
    pub fn row<C: ToString>(&mut self, cells: impl IntoIterator<Item = C>) {
        self.table.add_row(cells.into_iter().map(|cell| Cell::new(printable(&cell.to_string()))));
    }

    /// Adds a row that is coloured on a terminal; `true` is good, `false` is bad.
    pub fn judged<C: ToString>(
        &mut self,
        judgement: impl Into<Judgement>,
        cells: impl IntoIterator<Item = C>,
    ) {
        let colour = match judgement.into() {
            Judgement::Good => comfy_table::Color::Green,
            Judgement::Warning => comfy_table::Color::Yellow,
            Judgement::Bad => comfy_table::Color::Red,
        };
        let lively = self.lively;
        self.table.add_row(cells.into_iter().map(|cell| {
            let cell = Cell::new(printable(&cell.to_string()));
            if lively { cell.fg(colour) } else { cell }
        }));
    }

    /// The table as text, without the blanks at the ends of its lines.
    pub fn text(mut self) -> String {
        if self.lively {
            self.table.enforce_styling();
        } else {
            self.table.force_no_tty();
        }
        let text = self.table.to_string().replace('\u{1b}', &OWN_ESCAPE);
        text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
    }
}

/// Prints a line to standard output. A reader that has gone (`| head`) ends the program quietly.
///
/// # Errors
/// Standard output cannot be written.
pub fn say(text: &str) -> Result<(), Fault> {
    let text = printable_lines(text).replace(OWN_ESCAPE.as_str(), "\u{1b}");
    write(format!("{text}\n").as_bytes())
}

/// Prints a line to standard error.
pub fn complain(text: &str) {
    eprintln!("{}", printable_lines(text));
}

/// Prints a payload: to a terminal as text that it can only show, elsewhere the bytes as they are.
///
/// # Errors
/// Standard output cannot be written.
pub fn payload(bytes: &[u8]) -> Result<(), Fault> {
    match std::io::stdout().is_terminal() {
        true => say(&String::from_utf8_lossy(bytes)),
        false => write(bytes),
    }
}

/// Writes bytes to standard output as they are. A reader that has gone (`| head`) ends the program quietly.
///
/// # Errors
/// Standard output cannot be written.
pub fn write(bytes: &[u8]) -> Result<(), Fault> {
    let mut out = std::io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => std::process::exit(0),
        Err(error) => Err(failure::file("standard output".as_ref(), "write to", error)),
        Ok(()) => Ok(()),
    }
}

/// A number of things: `1 dead letter`, `2 dead letters`.
pub fn counted(count: u64, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

/// A time, and how far it is from now.
pub fn time_from(at: UnixMillis, now: UnixMillis) -> String {
    let (far, word) = if at >= now { (at.since(now), "in ") } else { (now.since(at), "") };
    let ago = if at >= now { "" } else { " ago" };
    format!("{} ({word}{}{ago})", time(at), duration(far))
}

/// Adds a time to an object: `{name}_at` as RFC 3339 and `{name}_ms`; both are null where there is none.
pub fn add_time(value: &mut Value, name: &str, at: Option<UnixMillis>) {
    value[format!("{name}_at")] = at.map(time).into();
    value[format!("{name}_ms")] = at.map(UnixMillis::get).into();
}

/// A duration in at most two units.
pub fn duration(length: std::time::Duration) -> String {
    let whole = match length.as_secs() {
        0..60 => std::time::Duration::from_millis(length.as_millis() as u64),
        seconds => std::time::Duration::from_secs(seconds),
    };
    humantime::format_duration(whole).to_string().split(' ').take(2).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_no_borders_and_no_colour_unless_it_is_on_a_terminal() {
        let output = Output { json: false, lively: false, width: None };
        let mut rows = output.rows(&["topic", ">ready"]);
        rows.row(["orders", "12"]);
        rows.judged(false, ["reminders", "3"]);
        assert_eq!(rows.text(), "TOPIC      READY\norders        12\nreminders      3");
        let mut rows = Output { json: false, lively: true, width: None }.rows(&["topic"]);
        rows.judged(true, ["orders"]);
        assert!(rows.text().contains(OWN_ESCAPE.as_str()));
    }

    #[test]
    fn a_table_fits_the_terminal() {
        let output = Output { json: false, lively: false, width: Some(24) };
        let mut rows = output.rows(&["check", "found"]);
        rows.row(["timers", "a shard has been due for an hour"]);
        let text = rows.text();
        assert!(text.lines().all(|line| line.len() <= 24), "{text}");
        assert_eq!(
            text.split_whitespace().collect::<Vec<_>>().join(" ").matches("due for").count(),
            1,
            "{text}"
        );
    }

    #[test]
    fn times_are_told_with_their_distance() {
        let now = UnixMillis::new(1_800_000_000_000);
        assert_eq!(time(now), "2027-01-15T08:00:00.000Z");
        assert_eq!(
            time_from(UnixMillis::new(now.get() + 90_500), now),
            "2027-01-15T08:01:30.500Z (in 1m 30s)"
        );
        assert_eq!(time_from(UnixMillis::new(now.get() - 250), now), "2027-01-15T07:59:59.750Z (250ms ago)");
        assert_eq!(time(UnixMillis::MAX), "9007199254740991 ms");
        for (seconds, text) in
            [(0, "0s"), (59, "59s"), (3_661, "1h 1m"), (90_000, "1day 1h"), (800_000, "9days 6h")]
        {
            assert_eq!(duration(std::time::Duration::from_secs(seconds)), text);
        }
    }
}
