//! `delayq outbox`: the table of writes that producers request within database transactions.

mod export;
mod row;

use crate::confirm::confirm;
use crate::deployment::Context;
use crate::failure::{refused as refused_by_redis, unknown, usage};
use crate::output::{Output, add_time, counted, duration, time, write};
use clap::{Args, Subcommand};
use delayq::{Producer, ProducerOptions};
use delayq_compensator::{AsideRow, Books, OutboxKeeper, Reconcile, Reconciled, outbox_keeper};
use delayq_service::Fault;
use delayq_service::config::HumanDuration;
use export::Export;
use serde_json::{Value, json};

/// Create, show and manage the outbox in a database
#[derive(Debug, Args)]
pub struct Outbox {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Create the outbox tables, or print the statements
    Init {
        /// Only print the statements
        #[arg(long, conflicts_with = "adopt")]
        print: bool,
        /// Take over tables that a dump or an upgrade brought from another cluster
        #[arg(long)]
        adopt: bool,
    },
    /// Show how many rows wait, or one row that is set aside
    Show {
        /// The row's number, as delayq outbox rejected lists it
        number: Option<u64>,
        /// Print only the payload, byte for byte; on a terminal, with control characters escaped
        #[arg(long, alias = "raw", requires = "number", conflicts_with_all = ["json", "output"])]
        payload: bool,
    },
    /// List rows that are set aside, with their reasons
    Rejected {
        /// List resting rows, which are retried automatically, instead of rejected ones
        #[arg(long)]
        resting: bool,
        /// At most this many
        #[arg(long, default_value_t = 50)]
        limit: usize,
    },
    /// Print rows that are set aside as NDJSON
    Export(Export),
    /// Try rejected rows again
    Retry {
        #[command(flatten)]
        which: RowChoice,
        /// Also rows that are overtaken: a later row of their message was carried out, and a retry undoes it
        #[arg(long)]
        force: bool,
    },
    /// Put the pending messages of kept rows that Redis has lost
    ///
    /// For a Redis that lost its last seconds, or everything. Rows are kept for `[outbox] keep`. Compensators wait until it
    /// is done.
    Reconcile {
        /// How far back to replay rows: 2h, for example
        #[arg(long, value_name = "DURATION")]
        since: HumanDuration,
        /// Also put messages that were due up to this long ago: one that was delivered and whose id is forgotten is
        /// delivered twice
        #[arg(long, value_name = "DURATION", default_value = "0s")]
        overdue: HumanDuration,
        /// Only report what would be put
        #[arg(long)]
        dry_run: bool,
    },
    /// Delete rows that are set aside
    #[command(visible_alias = "drop")]
    Discard {
        #[command(flatten)]
        which: RowChoice,
        /// Do not ask: they cannot be restored
        #[arg(long)]
        yes: bool,
    },
}

/// Which rows.
#[derive(Debug, Args)]
struct RowChoice {
    /// Their numbers
    #[arg(required_unless_present = "all")]
    numbers: Vec<u64>,
    /// All rejected ones
    #[arg(long, conflicts_with = "numbers")]
    all: bool,
}

const PAGE: usize = 500;

// === impl Outbox ===

impl Outbox {
    /// Runs the subcommand.
    ///
    /// # Errors
    /// There is no outbox, or the outbox cannot be used.
    pub async fn run(self, context: &Context) -> Result<(), Fault> {
        let (config, output) = (&context.config.outbox, context.output);
        if config.url.is_none() {
            return Err(usage("there is no outbox: [outbox] url is unset"));
        }
        let mut keeper = outbox_keeper(config)?;
        match self.action {
            Action::Init { print: true, .. } => write(keeper.migration().as_bytes()),
            Action::Init { adopt: true, .. } => {
                let waiting = keeper.adopt().await?;
                output.print(&json!({ "waiting": waiting }), || {
                    format!("adopted; {} wait", counted(waiting, "row"))
                })
            }
            Action::Init { .. } => {
                let made = keeper.init().await?;
                output.print(&json!({ "made": made }), || {
                    if made { "made the tables" } else { "the tables already exist" }.to_owned()
                })
            }
            Action::Show { number: None, .. } => show(&keeper.books().await?, output),
            Action::Show { number: Some(number), payload } => {
                row::show(&mut keeper, number, payload, output).await
            }
            Action::Export(export) => export.run(&mut keeper).await,
            Action::Rejected { resting, limit } => {
                list(&keeper.aside_names(resting, 0, limit).await?, output)
            }
            Action::Retry { which, force } => {
                let numbers = which.numbers(&mut keeper).await?;
                let done = keeper.retry(&numbers, force).await?;
                each(output, &numbers, &done, "is tried again")
            }
            Action::Reconcile { since, overdue, dry_run } => {
                let what = Reconcile { since: *since, overdue: *overdue, dry_run };
                let producer = Producer::start(context.client().clone(), ProducerOptions::default());
                reconcile(&mut keeper, &producer, what, output).await
            }
            Action::Discard { which, yes } => {
                let numbers = which.numbers(&mut keeper).await?;
                confirm(&format!("this permanently deletes {}", counted(numbers.len() as u64, "row")), yes)?;
                // Connects again: a server ends a session that is idle while the operator thinks.
                let done = outbox_keeper(config)?.discard(&numbers).await?;
                each(output, &numbers, &done, "discarded")
            }
        }
    }
}

// === impl RowChoice ===

impl RowChoice {
    async fn numbers(self, keeper: &mut OutboxKeeper) -> Result<Vec<u64>, Fault> {
        if !self.all {
            return Ok(self.numbers);
        }
        let mut numbers = Vec::new();
        loop {
            let after = numbers.last().copied().unwrap_or(0);
            let found = keeper.aside_names(false, after, PAGE).await?;
            if found.is_empty() {
                return Ok(numbers);
            }
            numbers.extend(found.iter().map(|row| row.number));
        }
    }
}

fn show(books: &Books, output: Output) -> Result<(), Fault> {
    let Books { oldest, rejected, resting, bytes, .. } = books;
    let value = json!({
        "oldest_ms": oldest.map(|age| u64::try_from(age.as_millis()).unwrap_or(u64::MAX)),
        "rejected": rejected, "resting": resting, "bytes": bytes,
    });
    output.print(&value, || {
        let oldest = oldest.map_or_else(
            || "nothing waits".to_owned(),
            |age| format!("the oldest row has waited for {}", duration(age)),
        );
        format!(
            "{oldest}\n{rejected} rejected, {resting} resting\n{} KiB in the tables, settled rows included",
            bytes >> 10
        )
    })
}

async fn reconcile(
    keeper: &mut OutboxKeeper,
    producer: &Producer,
    what: Reconcile,
    output: Output,
) -> Result<(), Fault> {
    let bar = output.progress(0);
    let found = keeper.reconcile(producer, what, |done, all| {
        bar.set_length(all);
        bar.set_position(done);
    });
    let found = found.await?;
    bar.finish_and_clear();
    let Reconciled { rows, known, put, cancelled, overdue, unclear, refused } = found;
    let value = json!({
        "rows": rows, "known": known, "put": put, "cancelled": cancelled, "overdue": overdue, "unclear": unclear,
        "refused": refused, "dry_run": what.dry_run,
    });
    output.print(&value, || {
        let word = if what.dry_run { "to be put" } else { "put" };
        format!(
            "{}: {known} messages known, {put} {word}, {cancelled} cancelled, {overdue} overdue, {unclear} unclear, \
             {refused} refused",
            counted(rows, "row")
        )
    })?;
    match refused {
        0 => Ok(()),
        _ => Err(refused_by_redis(format!("Redis refuses {}", counted(refused, "message")))),
    }
}

fn list(found: &[AsideRow], output: Output) -> Result<(), Fault> {
    let mut rows = output.rows(&[">number", "since", "row", "why"]);
    let mut values: Vec<Value> = Vec::new();
    for found in found {
        let AsideRow { number, reason, since, row, overtaken, .. } = found;
        let mut value = json!({
            "number": number, "state": row::state(found), "verb": row.verb(), "topic": row.topic(), "id": row.id(),
            "reason": reason, "overtaken": overtaken,
        });
        add_time(&mut value, "since", Some(*since));
        values.push(value);
        let asked = format!("{} {} {}", row.verb(), row.topic(), row.id());
        let why = if *overtaken { format!("{reason} (overtaken)") } else { reason.clone() };
        rows.row([number.to_string(), time(*since), asked, why]);
    }
    let empty = values.is_empty();
    output.print(&values, || if empty { "none".to_owned() } else { rows.text() })
}

fn each(output: Output, numbers: &[u64], done: &[u64], word: &str) -> Result<(), Fault> {
    output.print(&json!({ "done": done }), || match done.is_empty() {
        true => "none".to_owned(),
        false => done.iter().map(|n| format!("{n} {word}")).collect::<Vec<_>>().join("\n"),
    })?;
    match numbers.len() - done.len() {
        0 => Ok(()),
        missing => {
            let why = "not rows of that kind, or superseded by a later row of the same message (--force \
                       applies them anyway)";
            Err(unknown(format!("{missing} of the given numbers are {why}; see delayq outbox rejected")))
        }
    }
}
