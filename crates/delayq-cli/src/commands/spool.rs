//! `delayq spool`: what waits on this host's disk, and what was set aside.

use crate::deployment::Context;
use crate::failure::{FILE, unknown, usage};
use crate::output::{Output, add_time, time};
use clap::{Args, Subcommand};
use delayq::spool::SpoolRecord;
use delayq_service::Fault;
use delayq_spool::{SpoolError, SpoolReader, SpoolStats};
use serde_json::{Value, json};
use std::path::Path;

/// Show the spool of this host: books, waiting and rejected records
#[derive(Debug, Args)]
pub struct Spool {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Show its books
    Show,
    /// List records that wait for Redis, the oldest first
    Waiting {
        /// At most this many
        #[arg(long, default_value_t = 50)]
        limit: usize,
    },
    /// List rejected records with the reasons
    Rejected {
        /// At most this many
        #[arg(long, default_value_t = 50)]
        limit: usize,
    },
    /// Try rejected records again
    Retry {
        /// Their numbers
        #[arg(required = true)]
        numbers: Vec<u64>,
    },
    /// Delete rejected records
    Discard {
        /// Their numbers
        #[arg(required = true)]
        numbers: Vec<u64>,
    },
}

// === impl Spool ===

impl Spool {
    /// Does it.
    ///
    /// # Errors
    /// There is no spool, or it cannot be used.
    pub async fn run(self, context: &Context) -> Result<(), Fault> {
        let folder = context.config.spool.folder().map(Path::to_owned);
        let folder = folder.ok_or_else(|| usage("there is no spool: [spool] dir is empty"))?;
        let output = context.output;
        // SQLite blocks on the disk.
        let done = tokio::task::spawn_blocking(move || self.action.run(&folder, output)).await;
        done.unwrap_or_else(|error| Err(Fault::new(&FILE, "the spool").because(error)))
    }
}

// === impl Action ===

impl Action {
    fn run(self, folder: &Path, output: Output) -> Result<(), Fault> {
        let mut reader = SpoolReader::open_beside(folder).map_err(unusable)?;
        match self {
            Self::Show => show(&reader.stats().map_err(unusable)?, output),
            Self::Waiting { limit } => {
                let waiting = reader.next_batch(limit).map_err(unusable)?;
                let rows =
                    waiting.iter().map(|spooled| (spooled.seq, spooled.spooled_at, &spooled.record, ""));
                list(output, rows)
            }
            Self::Rejected { limit } => {
                let rejected = reader.rejected(0, limit).map_err(unusable)?;
                let rows = rejected.iter().map(|r| (r.seq, r.spooled_at, &r.record, r.reason.as_str()));
                list(output, rows)
            }
            Self::Retry { numbers } => each(output, &numbers, "waits again", |seq| reader.retry(seq)),
            Self::Discard { numbers } => each(output, &numbers, "discarded", |seq| reader.discard(seq)),
        }
    }
}

fn show(stats: &SpoolStats, output: Output) -> Result<(), Fault> {
    let SpoolStats { spooled, replayed, rejected, discarded, waiting, oldest, bytes } = stats;
    let mut value = json!({
        "spooled": spooled, "replayed": replayed, "rejected": rejected, "discarded": discarded, "waiting": waiting,
        "bytes": bytes, "balances": stats.balances(),
    });
    add_time(&mut value, "oldest", *oldest);
    output.print(&value, || {
        let mut rows = output.rows(&["records", ">count"]);
        let all = [
            ("spooled", spooled),
            ("replayed", replayed),
            ("rejected", rejected),
            ("discarded", discarded),
            ("waiting", waiting),
        ];
        for (name, count) in all {
            rows.row([name.to_owned(), count.to_string()]);
        }
        let oldest = oldest.map_or(String::new(), |at| format!("\nthe oldest waits since {}", time(at)));
        let books = if stats.balances() { "balance" } else { "DO NOT BALANCE" };
        format!("{}\n{} KiB on disk; its books {books}{oldest}", rows.text(), bytes >> 10)
    })
}

fn list<'r>(
    output: Output,
    records: impl Iterator<Item = (u64, delayq::UnixMillis, &'r Result<SpoolRecord, String>, &'r str)>,
) -> Result<(), Fault> {
    let mut rows = output.rows(&[">number", "spooled", "record", "why"]);
    let mut values: Vec<Value> = Vec::new();
    for (seq, spooled_at, record, why) in records {
        let record = match record {
            Ok(record) => format!("{} {}", record.topic, record.target.id),
            Err(error) => format!("unreadable: {error}"),
        };
        let mut value = json!({ "number": seq, "record": record, "reason": why });
        add_time(&mut value, "spooled", Some(spooled_at));
        values.push(value);
        rows.row([seq.to_string(), time(spooled_at), record, why.to_owned()]);
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
    output.print(&json!({ "done": done }), || {
        done.iter().map(|n| format!("{n} {word}\n")).collect::<String>().trim_end().to_owned()
    })?;
    match numbers.len() - done.len() {
        0 => Ok(()),
        missing => Err(unknown(format!(
            "{missing} of the numbers are not rejected records; see delayq spool rejected"
        ))),
    }
}

fn unusable(error: SpoolError) -> Fault {
    Fault::new(&FILE, "the spool cannot be used").because(error)
}
