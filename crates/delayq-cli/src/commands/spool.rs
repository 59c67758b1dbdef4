//! `delayq spool`: records waiting on this host's disk, and records set aside.

pub(super) mod export;
mod fault;
pub(super) mod record;
mod select;

use crate::confirm::confirm;
use crate::deployment::Context;
use crate::failure::{FILE, RECORDS_UNREADABLE, unknown, usage};
use crate::output::{Output, add_time, counted, time};
use clap::{Args, Subcommand};
use delayq::UnixMillis;
use delayq::spool::AnyRecord;
use delayq_service::Fault;
use delayq_spool::{
    Rejected, Retried, Salvaged, SpoolError, SpoolReader, SpoolStats, Spooled, salvage_spool,
};
use export::Export;
use fault::unusable;
use select::Select;
use serde_json::{Value, json};
use std::path::Path;

/// Show and manage the spool of this host: waiting and rejected records
#[derive(Debug, Args)]
pub struct Spool {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Show the spool's books, or one record
    Show {
        /// The record's number
        number: Option<u64>,
        /// Print only the payload, byte for byte; on a terminal, with control characters escaped
        #[arg(long, alias = "raw", requires = "number", conflicts_with_all = ["json", "output"])]
        payload: bool,
    },
    /// List records that wait for Redis, the oldest first
    Waiting {
        /// At most this many
        #[arg(long, default_value_t = 50)]
        limit: usize,
    },
    /// List rejected records with their reasons
    Rejected {
        /// At most this many
        #[arg(long, default_value_t = 50)]
        limit: usize,
    },
    /// Print records as NDJSON
    Export(Export),
    /// Try rejected records again
    Retry {
        #[command(flatten)]
        which: Select,
        /// As if never tried, and although overtaken: a stale put may be delivered a second time, and a later write of the same
        /// message is undone
        #[arg(long)]
        force: bool,
    },
    /// Delete records: rejected ones, or waiting ones by number
    #[command(visible_alias = "drop")]
    Discard {
        #[command(flatten)]
        which: Select,
        /// With --all: waiting records instead of rejected ones
        #[arg(long, requires = "all", conflicts_with_all = ["numbers", "reason"])]
        waiting: bool,
        /// Do not ask: they cannot be restored
        #[arg(long)]
        yes: bool,
    },
    /// Recover a damaged spool: move what can be read to a new file
    ///
    /// Stop this host's producers and compensator first. The damaged file is kept.
    Salvage,
}

// === impl Spool ===

impl Spool {
    /// Runs the subcommand.
    ///
    /// # Errors
    /// There is no spool, or the spool cannot be used.
    pub async fn run(self, context: &Context) -> Result<(), Fault> {
        let folder = context.config.spool.folder().map(Path::to_owned);
        let folder = folder.ok_or_else(|| usage("there is no spool: [spool] dir is empty"))?;
        let output = context.output;
        // SQLite blocks the thread while waiting for the disk.
        let done = tokio::task::spawn_blocking(move || self.action.run(&folder, output)).await;
        done.unwrap_or_else(|error| Err(Fault::new(&FILE, "the spool").because(error)))
    }
}

// === impl Action ===

impl Action {
    fn run(self, folder: &Path, output: Output) -> Result<(), Fault> {
        if let Self::Salvage = self {
            return salvaged(&salvage_spool(folder).map_err(unusable)?, output);
        }
        let mut reader = SpoolReader::open_beside(folder).map_err(unusable)?;
        match self {
            Self::Show { number: None, .. } => show(&reader.stats().map_err(unusable)?, output),
            Self::Show { number: Some(number), payload } => record::show(&reader, number, payload, output),
            Self::Waiting { limit } => {
                let waiting = reader.waiting(0, limit).map_err(unusable)?;
                list(output, waiting.iter().map(ListedRecord::from))
            }
            Self::Rejected { limit } => {
                let rejected = reader.rejected(0, limit).map_err(unusable)?;
                list(output, rejected.iter().map(ListedRecord::from))
            }
            Self::Export(export) => export.run(&reader),
            Self::Retry { which, force } => {
                let numbers = which.numbers(&reader, false)?;
                each(output, &numbers, "waits again", |seq| Ok(reader.retry(seq, force)? == Retried::Waits))
            }
            Self::Discard { which, waiting, yes } => {
                let numbers = which.numbers(&reader, waiting)?;
                confirm(
                    &format!("this permanently deletes {}", counted(numbers.len() as u64, "record")),
                    yes,
                )?;
                each(output, &numbers, "discarded", |seq| reader.discard(seq))
            }
            Self::Salvage => unreachable!("the request was made before the spool was opened"),
        }
    }
}

fn show(stats: &SpoolStats, output: Output) -> Result<(), Fault> {
    let SpoolStats { spooled, replayed, rejected, discarded, waiting, oldest, bytes } = stats;
    let mut value = json!({
        "spooled": spooled, "resubmitted": replayed, "rejected": rejected, "discarded": discarded, "waiting": waiting,
        "bytes": bytes, "balances": stats.balances(),
    });
    add_time(&mut value, "oldest", *oldest);
    output.print(&value, || {
        let mut rows = output.rows(&["records", ">count"]);
        let all = [
            ("spooled", spooled),
            ("resubmitted", replayed),
            ("rejected", rejected),
            ("discarded", discarded),
            ("waiting", waiting),
        ];
        for (name, count) in all {
            rows.row([name.to_owned(), count.to_string()]);
        }
        let oldest = oldest.map_or(String::new(), |at| format!("\nthe oldest has waited since {}", time(at)));
        let books = if stats.balances() { "balance" } else { "DO NOT BALANCE" };
        format!("{}\n{} KiB on disk; its books {books}{oldest}", rows.text(), bytes >> 10)
    })
}

struct ListedRecord<'r> {
    number: u64,
    spooled_at: UnixMillis,
    record: &'r Result<AnyRecord, String>,
    reason: &'r str,
    overtaken: bool,
}

impl<'r> From<&'r Spooled> for ListedRecord<'r> {
    fn from(Spooled { seq, spooled_at, record, .. }: &'r Spooled) -> Self {
        Self { number: *seq, spooled_at: *spooled_at, record, reason: "", overtaken: false }
    }
}

impl<'r> From<&'r Rejected> for ListedRecord<'r> {
    fn from(Rejected { seq, spooled_at, record, reason, overtaken, .. }: &'r Rejected) -> Self {
        Self { number: *seq, spooled_at: *spooled_at, record, reason, overtaken: *overtaken }
    }
}

fn list<'r>(output: Output, records: impl Iterator<Item = ListedRecord<'r>>) -> Result<(), Fault> {
    let mut rows = output.rows(&[">number", "spooled", "verb", "record", "why"]);
    let mut values: Vec<Value> = Vec::new();
    for ListedRecord { number, spooled_at, record, reason, overtaken } in records {
        let verb = record.as_ref().map_or("", AnyRecord::verb);
        let record = match record {
            Ok(AnyRecord::Message(record)) => format!("{} {}", record.topic, record.target.id),
            Ok(AnyRecord::Group(record)) => format!("group {}", record.group),
            Err(error) => format!("unreadable: {error}"),
        };
        let mut value = json!({
            "number": number, "verb": verb, "record": record, "reason": reason, "overtaken": overtaken,
        });
        add_time(&mut value, "spooled", Some(spooled_at));
        values.push(value);
        let why = if overtaken { format!("{reason} (overtaken)") } else { reason.to_owned() };
        rows.row([number.to_string(), time(spooled_at), verb.to_owned(), record, why]);
    }
    let empty = values.is_empty();
    output.print(&values, || if empty { "none".to_owned() } else { rows.text() })
}

fn each(
    output: Output,
    numbers: &[u64],
    word: &str,
    mut act: impl FnMut(u64) -> Result<bool, SpoolError>,
) -> Result<(), Fault> {
    let mut done = Vec::new();
    for &number in numbers {
        if act(number).map_err(unusable)? {
            done.push(number);
        }
    }
    output.print(&json!({ "done": done }), || match done.is_empty() {
        true => "none".to_owned(),
        false => done.iter().map(|n| format!("{n} {word}\n")).collect::<String>().trim_end().to_owned(),
    })?;
    match numbers.len() - done.len() {
        0 => Ok(()),
        missing => {
            let why = "not records of that kind, or superseded by a later record of the same message \
                       (--force applies them anyway)";
            Err(unknown(format!("{missing} of the given numbers are {why}; see delayq spool rejected")))
        }
    }
}

fn salvaged(found: &Salvaged, output: Output) -> Result<(), Fault> {
    let Salvaged { waiting, rejected, lost, lost_numbers, issued, aside } = found;
    let value = json!({
        "waiting": waiting, "rejected": rejected, "lost": lost, "lost_numbers": lost_numbers,
        "last_number": issued, "damaged_file": aside,
    });
    output.print(&value, || {
        let numbers: Vec<String> = lost_numbers.iter().map(u64::to_string).collect();
        let named = if numbers.is_empty() { String::new() } else { format!(": {}", numbers.join(", ")) };
        let lost = lost.map_or_else(|| "an unknown number".to_owned(), |lost| lost.to_string());
        format!(
            "recovered {} that waits and {rejected} rejected; {lost} lost{named}\nthe damaged file is {}",
            counted(*waiting, "record"),
            aside.display()
        )
    })?;
    match lost {
        Some(0) => Ok(()),
        Some(lost) => unreadable(format!("{} can no longer be read", counted(*lost, "record"))),
        None => unreadable(format!(
            "the books cannot be read: each number up to {issued} that was not recovered was resubmitted before, or is lost"
        )),
    }
}

fn unreadable(what: String) -> Result<(), Fault> {
    Err(Fault::new(&RECORDS_UNREADABLE, what))
}
