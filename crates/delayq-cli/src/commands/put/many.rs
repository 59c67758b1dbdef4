//! Many messages from NDJSON: bounded in flight, bad lines named, a summary at the end. For `put --from` and `restore`.

use super::sentence::sentence;
use crate::deployment::Context;
use crate::failure::{self, INTERRUPTED, LINES_REFUSED, of_core};
use crate::output::{complain, counted};
use delayq::{Message, Producer, Put, PutError};
use delayq_service::Fault;
use delayq_service::json::put_word;
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use serde_json::json;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::pin::{Pin, pin};
use tokio::io::{AsyncBufRead, AsyncBufReadExt as _, BufReader};

/// Maximum length of a line: twice the largest payload in base64, and room for the rest.
const LONGEST_LINE_BYTES: usize = 4 * 1024 * 1024;
const COUNTED_EVERY: u64 = 256;

pub(crate) struct Many {
    pub(crate) from: PathBuf,
    /// Lines before this line are not put; the first line is 1.
    pub(crate) from_line: u64,
    pub(crate) strict: bool,
    pub(crate) in_flight: usize,
}

/// Interprets lines.
///
/// # Contract
/// Lines come in order, each once, without line ends, and never empty.
pub(crate) trait Lines {
    async fn line(&mut self, line: &[u8]) -> Result<InputLine, LineFault>;
}

pub(crate) enum InputLine {
    Put(Box<Message>),
    /// A record of a backup that is not a message; already carried out.
    Record,
    LeftOut,
}

pub(crate) enum LineFault {
    /// The line is refused; all other lines are put.
    Refused(String),
    /// No later line can be served either.
    Stop(Fault),
}

#[derive(Debug, Default, Serialize)]
struct Summary {
    lines: u64,
    outcomes: BTreeMap<&'static str, u64>,
    refused: u64,
    /// Lines of a backup that are not messages.
    #[serde(skip_serializing_if = "is_zero")]
    records: u64,
    #[serde(skip_serializing_if = "is_zero")]
    left_out: u64,
    /// The first line that may not have been put, because Redis failed or the user interrupted the command.
    #[serde(skip_serializing_if = "Option::is_none")]
    stopped_at_line: Option<u64>,
}

struct ManyRun<'c, L> {
    many: &'c Many,
    lines: &'c mut L,
    name: String,
    json: bool,
    summary: Summary,
    bar: ProgressBar,
    stop: Option<Fault>,
}

type PutAnswer = (u64, Result<Put, PutError>);

// === impl Many ===

impl Many {
    pub(crate) async fn run(
        &self,
        context: &Context,
        producer: &Producer,
        lines: &mut impl Lines,
    ) -> Result<(), Fault> {
        let (input, name, bytes) = self.open().await?;
        let bar = bar(context, bytes);
        let json = context.output.json;
        let mut run = ManyRun { many: self, lines, name, json, summary: Summary::default(), bar, stop: None };
        run.all(input, producer).await?;
        run.bar.finish_and_clear();
        let ManyRun { summary, stop, .. } = run;
        context.output.print(&summary, || summary.sentence())?;
        match stop {
            Some(fault) => Err(fault),
            None if summary.refused > 0 => {
                let (refused, lines) = (summary.refused, summary.lines);
                Err(Fault::new(&LINES_REFUSED, format!("{refused} of {lines} lines were refused")))
            }
            None => Ok(()),
        }
    }

    async fn open(&self) -> Result<(Pin<Box<dyn AsyncBufRead>>, String, u64), Fault> {
        if self.from.as_os_str() == "-" {
            return Ok((Box::pin(BufReader::new(tokio::io::stdin())), "standard input".to_owned(), 0));
        }
        let cannot = |error| failure::file(&self.from, "read", error);
        let file = tokio::fs::File::open(&self.from).await.map_err(cannot)?;
        let bytes = file.metadata().await.map_err(cannot)?.len();
        Ok((Box::pin(BufReader::with_capacity(1 << 18, file)), self.from.display().to_string(), bytes))
    }
}

// === impl ManyRun ===

impl<L: Lines> ManyRun<'_, L> {
    async fn all(&mut self, mut input: Pin<Box<dyn AsyncBufRead>>, producer: &Producer) -> Result<(), Fault> {
        let mut under_way = FuturesUnordered::new();
        let mut line = Vec::new();
        let mut interrupt = pin!(tokio::signal::ctrl_c());
        while self.stop.is_none() {
            tokio::select! {
                biased;
                _ = &mut interrupt => self.interrupt(),
                Some(answer) = under_way.next() => self.answered(answer),
                // Cancel safe: the beginning of a line stays in `line`. Back-pressure: no line is read while the
                // maximum number of puts is in flight.
                read = input.read_until(b'\n', &mut line), if under_way.len() < self.many.in_flight => {
                    read.map_err(|error| failure::file(&self.many.from, "read", error))?;
                    if line.is_empty() {
                        break;
                    }
                    under_way.extend(self.begin(&line, producer).await);
                    line.clear();
                }
            }
        }
        while let Some(answer) = under_way.next().await {
            self.answered(answer);
        }
        Ok(())
    }

    /// `None` if there is nothing to put.
    async fn begin(
        &mut self,
        line: &[u8],
        producer: &Producer,
    ) -> Option<impl Future<Output = PutAnswer> + use<L>> {
        self.bar.inc(line.len() as u64);
        self.summary.lines += 1;
        let number = self.summary.lines;
        if number.is_multiple_of(COUNTED_EVERY) {
            self.bar.set_message(format!("{number} lines"));
        }
        let line = line.trim_ascii();
        if line.is_empty() {
            return None;
        }
        let is_before = number < self.many.from_line;
        if line.len() > LONGEST_LINE_BYTES && !is_before {
            let fault =
                format!("the line has {} bytes, at most {LONGEST_LINE_BYTES} are allowed", line.len());
            self.refuse(number, &fault);
            return None;
        }
        match self.lines.line(line).await {
            Ok(InputLine::Put(message)) if !is_before => {
                let producer = producer.clone();
                return Some(async move { (number, producer.put(*message).await) });
            }
            Ok(InputLine::Record) => self.summary.records += 1,
            Ok(InputLine::Put(_) | InputLine::LeftOut) => self.summary.left_out += 1,
            Err(LineFault::Refused(_)) if is_before => self.summary.left_out += 1,
            Err(LineFault::Refused(why)) => self.refuse(number, &why),
            Err(LineFault::Stop(fault)) => self.stop_at(number, fault),
        }
        None
    }

    fn answered(&mut self, (number, answer): PutAnswer) {
        match answer {
            Ok(put) => {
                *self.summary.outcomes.entry(put_word(&put.outcome)).or_default() += 1;
                if !put.outcome.is_accepted() {
                    self.refuse(number, &sentence(&put));
                }
            }
            Err(PutError { error, .. }) => match of_core(error) {
                fault if fault.code() == &failure::USAGE => {
                    self.refuse(number, &fault.to_string());
                }
                fault => self.stop_at(number, fault),
            },
        }
    }

    fn stop_at(&mut self, number: u64, fault: Fault) {
        let first = self.summary.stopped_at_line.map_or(number, |first| first.min(number));
        self.summary.stopped_at_line = Some(first);
        let message =
            format!("stopped at {} line {first}; that line and all after it may not be stored", self.name);
        self.stop = Some(Fault::new(fault.code(), message).because(fault));
    }

    /// Stops before the next line; puts in flight are still awaited.
    fn interrupt(&mut self) {
        let first = self.summary.lines + 1;
        self.summary.stopped_at_line = Some(first);
        let message = format!("interrupted: {} line {first} and all after it were not put", self.name);
        self.stop = Some(Fault::new(&INTERRUPTED, message));
    }

    fn refuse(&mut self, number: u64, why: &str) {
        self.summary.refused += 1;
        let name = &self.name;
        let complaint = match self.json {
            true => json!({ "line": number, "message": why }).to_string(),
            false => format!("{name}:{number}: {why}"),
        };
        self.bar.suspend(|| complain(&complaint));
        if self.many.strict && self.stop.is_none() {
            let message = format!("stopped at {name} line {number}: {why}");
            self.stop = Some(Fault::new(&LINES_REFUSED, message));
        }
    }
}

// === impl Summary ===

impl Summary {
    fn sentence(&self) -> String {
        let mut words: Vec<String> =
            self.outcomes.iter().map(|(word, count)| format!("{count} {word}")).collect();
        let bad = self.refused.saturating_sub(
            self.outcomes
                .iter()
                .filter(|(word, _)| !["stored", "ready", "exists", "spooled"].contains(*word))
                .map(|(_, n)| n)
                .sum(),
        );
        for (count, word) in
            [(bad, "invalid"), (self.records, "about the backup"), (self.left_out, "left out")]
        {
            if count > 0 {
                words.push(format!("{count} {word}"));
            }
        }
        format!(
            "{}: {}",
            counted(self.lines, "line"),
            if words.is_empty() { "nothing to put".to_owned() } else { words.join(", ") }
        )
    }
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

fn bar(context: &Context, bytes: u64) -> ProgressBar {
    // The length of a pipe is unknown, so lines are counted.
    let (bar, style) = match bytes {
        0 => (context.output.spinner(), "{spinner} {msg}, {bytes}"),
        _ => (context.output.progress(bytes), "{spinner} {bytes}/{total_bytes} {wide_bar} {eta}"),
    };
    bar.with_style(ProgressStyle::with_template(style).expect("the template is a valid one"))
}
