//! The live view of a rehearsal: a progress bar on a terminal, plain lines elsewhere, nothing with JSON.

use crate::day::Day;
use crate::deliveries::Deliveries;
use crate::journal::Journal;
use delayq::UnixMillis;
use delayq::admin::Numbers;
use delayq_cli::output::{Output, duration, say};
use delayq_cli::printable::printable;
use delayq_service::Fault;
use indicatif::{ProgressBar, ProgressStyle};

/// Length of the bar, to which the fraction of the day is scaled.
const BAR: u64 = 10_000;
/// Number of plain lines, spread over the day.
const LINES: u64 = 10;

pub(crate) struct View {
    output: Output,
    bar: ProgressBar,
    lines: u64,
}

pub(crate) struct Shown<'s> {
    pub(crate) now: UnixMillis,
    pub(crate) journal: &'s Journal,
    pub(crate) numbers: &'s Numbers,
    pub(crate) deliveries: &'s Deliveries,
    pub(crate) cancelled: usize,
}

// === impl View ===

impl View {
    pub(crate) fn new(output: Output) -> Self {
        let bar = if output.lively { ProgressBar::new(BAR) } else { ProgressBar::hidden() };
        let style = "{prefix} {wide_bar:.cyan/blue} {percent:>3} %\n{msg}";
        bar.set_style(ProgressStyle::with_template(style).expect("the template is a valid one"));
        Self { output, bar, lines: 0 }
    }

    pub(crate) fn show(&mut self, shown: &Shown<'_>) -> Result<(), Fault> {
        if self.output.json {
            return Ok(());
        }
        let day = &shown.journal.day;
        let done = day.fraction(shown.now);
        let text = sentence(shown);
        if self.output.lively {
            self.bar.set_prefix(clock(day, shown.now));
            self.bar.set_position((done * BAR as f64) as u64);
            self.bar.set_message(printable(&text).into_owned());
            return Ok(());
        }
        let tenth = (done * LINES as f64) as u64 + 1;
        if tenth > self.lines {
            self.lines = tenth;
            return say(&format!("{} {:>3.0} %  {text}", clock(day, shown.now), done * 100.0));
        }
        Ok(())
    }

    pub(crate) fn end(&self) {
        self.bar.finish_and_clear();
    }
}

fn sentence(shown: &Shown<'_>) -> String {
    let Shown { numbers, deliveries, cancelled, now, .. } = shown;
    let next = match numbers.next_due {
        Some(due) if due > *now => format!("in {}", duration(due.since(*now))),
        Some(_) => "now".to_owned(),
        None => "none".to_owned(),
    };
    format!(
        "{} pending, {} ready, {} delivered, {cancelled} cancelled, next due {next}, lateness p50 {:.2} ms p99 {:.2} ms",
        numbers.pending(),
        numbers.ready,
        deliveries.messages(),
        deliveries.late_ms(0.5),
        deliveries.late_ms(0.99),
    )
}

fn clock(day: &Day, now: UnixMillis) -> String {
    let log_ms = day.log_ms(now).clamp(day.first_ms, day.last_ms);
    jiff::Timestamp::from_millisecond(log_ms)
        .map_or_else(|_| String::new(), |at| at.strftime("%d %b %H:%MZ").to_string())
}
