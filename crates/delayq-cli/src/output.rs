//! Output: tables for people, JSON for programs, colour only on a terminal; every text is [printable](crate::printable).

use crate::failure;
use crate::printable::printable_lines;
use crate::table::{OWN_ESCAPE, Rows};
use delayq::UnixMillis;
use delayq_service::Fault;
use indicatif::{ProgressBar, ProgressFinish};
use rustix::termios::tcgetwinsize;
use serde::Serialize;
use std::io::{IsTerminal, Write};
use std::time::Duration;

pub use delayq_look::{Judgement, counted, duration};
pub use delayq_service::json::add_time;
pub use delayq_service::when::time;

/// The output settings.
#[derive(Clone, Copy, Debug)]
pub struct Output {
    /// JSON instead of tables.
    pub json: bool,
    /// Enables colour and moving bars on standard output.
    pub lively: bool,
    /// The columns of the terminal that tables have to fit; `None` does not limit tables.
    pub width: Option<u16>,
}

// === impl Output ===

impl Output {
    /// Inspects the terminal and `NO_COLOR`.
    #[allow(clippy::disallowed_methods, reason = "the one module that knows about the terminal")]
    pub fn of_process(json: bool) -> Self {
        let no_colour = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let stdout = std::io::stdout();
        let terminal = !json && stdout.is_terminal();
        let width = || tcgetwinsize(stdout).ok().map(|size| size.ws_col).filter(|&columns| columns > 0);
        Self { json, lively: terminal && !no_colour, width: if terminal { width() } else { None } }
    }

    /// Returns whether tables and sentences go to a terminal.
    pub fn is_terminal(self) -> bool {
        !self.json && std::io::stdout().is_terminal()
    }

    /// A table with these columns. The mark `>` aligns a column to the right; the mark `?` before that leaves a column
    /// out on a narrow terminal.
    pub fn rows(self, columns: &[&str]) -> Rows {
        Rows::new(columns, self.lively, self.width)
    }

    /// A bar of this length, which only a terminal shows. Dropped, it is cleared.
    pub fn progress(self, length: u64) -> ProgressBar {
        self.shown(|| ProgressBar::new(length))
    }

    /// A spinner, as [`progress`](Self::progress).
    pub fn spinner(self) -> ProgressBar {
        self.shown(ProgressBar::new_spinner)
    }

    fn shown(self, bar: impl FnOnce() -> ProgressBar) -> ProgressBar {
        let bar = if self.lively { bar() } else { ProgressBar::hidden() };
        bar.with_finish(ProgressFinish::AndClear)
    }

    /// Prints the value as JSON, or the text of the table.
    ///
    /// # Errors
    /// Standard output cannot be written.
    pub fn print(self, value: &impl Serialize, table: impl FnOnce() -> String) -> Result<(), Fault> {
        if self.json {
            let text = serde_json::to_string_pretty(value).expect("printed records hold plain values");
            return say(&text);
        }
        say(&table())
    }

    /// Prints a value as a line of JSON, or a line of text.
    ///
    /// # Errors
    /// Standard output cannot be written.
    pub fn line(self, value: &impl Serialize, text: impl FnOnce() -> String) -> Result<(), Fault> {
        if self.json {
            return say(&serde_json::to_string(value).expect("printed records hold plain values"));
        }
        say(&text())
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

/// Prints a line to standard error, if still open.
pub fn complain(text: &str) {
    let _ = writeln!(std::io::stderr(), "{}", printable_lines(text));
}

/// Prints a payload: to a terminal as harmless text, elsewhere as raw bytes.
///
/// # Errors
/// Standard output cannot be written.
pub fn payload(bytes: &[u8]) -> Result<(), Fault> {
    match std::io::stdout().is_terminal() {
        true => say(&String::from_utf8_lossy(bytes)),
        false => write(bytes),
    }
}

/// Writes raw bytes to standard output. A reader that has gone (`| head`) ends the program quietly.
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

/// A time, with the distance from now.
pub fn time_from(at: UnixMillis, now: UnixMillis) -> String {
    format!("{} ({})", time(at), distance(at, now))
}

/// The distance of a time from now.
pub fn distance(at: UnixMillis, now: UnixMillis) -> String {
    if at >= now {
        format!("in {}", duration(at.since(now)))
    } else {
        format!("{} ago", duration(now.since(at)))
    }
}

/// The age of a time in whole seconds; empty without a time.
pub fn age(since: Option<UnixMillis>, now: UnixMillis) -> String {
    since.map_or(String::new(), |since| duration(Duration::from_secs(now.since(since).as_secs())))
}

#[cfg(test)]
mod tests {
    use super::*;

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
    }
}
