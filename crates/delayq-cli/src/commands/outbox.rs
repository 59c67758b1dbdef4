//! `delayq outbox`: the table in which producers ask for writes within their own transactions.

use crate::confirm::confirm;
use crate::deployment::Context;
use crate::failure::{unknown, usage};
use crate::output::{Output, add_time, counted, duration, time, write};
use clap::{Args, Subcommand};
use delayq_compensator::{AsideRow, Books, OutboxKeeper, outbox_keeper};
use delayq_service::Fault;
use serde_json::{Value, json};

/// Make, show and manage the outbox of a database
#[derive(Debug, Args)]
pub struct Outbox {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Make its tables, or print how
    Init {
        /// Print the statements instead
        #[arg(long, conflicts_with = "adopt")]
        print: bool,
        /// With a trigger that notifies of new rows, for `[outbox] notify`
        #[arg(long, conflicts_with = "adopt")]
        notify: bool,
        /// Take over tables that a dump or an upgrade brought from another cluster
        #[arg(long)]
        adopt: bool,
    },
    /// Show what waits
    Show,
    /// List rows that are kept aside, with the reasons
    Rejected {
        /// Those that rest and are tried again by themselves, instead of the rejected ones
        #[arg(long)]
        resting: bool,
        /// At most this many
        #[arg(long, default_value_t = 50)]
        limit: usize,
    },
    /// Try rejected rows again
    Retry {
        #[command(flatten)]
        which: Which,
    },
    /// Delete rows that are kept aside
    Discard {
        #[command(flatten)]
        which: Which,
        /// Do not ask: they cannot be restored
        #[arg(long)]
        yes: bool,
    },
}

/// Which rows.
#[derive(Debug, Args)]
struct Which {
    /// Their numbers
    #[arg(required_unless_present = "all")]
    numbers: Vec<u64>,
    /// All rejected ones
    #[arg(long, conflicts_with = "numbers")]
    all: bool,
}

/// So many rows are read at a time.
const PAGE: usize = 500;

// === impl Outbox ===

impl Outbox {
    /// Does it.
    ///
    /// # Errors
    /// There is no outbox, or it cannot be used.
    pub async fn run(self, context: &Context) -> Result<(), Fault> {
        let (config, output) = (&context.config.outbox, context.output);
        if config.url.is_none() {
            return Err(usage("there is no outbox: [outbox] url is unset"));
        }
        let mut keeper = outbox_keeper(config)?;
        match self.action {
            Action::Init { print: true, notify, .. } => write(keeper.migration(notify).as_bytes()),
            Action::Init { adopt: true, .. } => {
                let waiting = keeper.adopt().await?;
                output.print(&json!({ "waiting": waiting }), || {
                    format!("adopted; {} wait", counted(waiting, "row"))
                })
            }
            Action::Init { notify, .. } => {
                let made = keeper.init(notify).await?;
                output.print(&json!({ "made": made }), || {
                    if made { "made the tables" } else { "the tables are there already" }.to_owned()
                })
            }
            Action::Show => show(&keeper.books().await?, output),
            Action::Rejected { resting, limit } => list(&keeper.aside(resting, 0, limit).await?, output),
            Action::Retry { which } => {
                let numbers = which.numbers(&mut keeper).await?;
                let done = keeper.retry(&numbers).await?;
                each(output, &numbers, &done, "is tried again")
            }
            Action::Discard { which, yes } => {
                let numbers = which.numbers(&mut keeper).await?;
                confirm(&format!("this deletes {} for good", counted(numbers.len() as u64, "row")), yes)?;
                let done = keeper.discard(&numbers).await?;
                each(output, &numbers, &done, "discarded")
            }
        }
    }
}

// === impl Which ===

impl Which {
    async fn numbers(self, keeper: &mut OutboxKeeper) -> Result<Vec<u64>, Fault> {
        if !self.all {
            return Ok(self.numbers);
        }
        let mut numbers = Vec::new();
        loop {
            let found = keeper.aside(false, numbers.last().copied().unwrap_or(0), PAGE).await?;
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
            |age| format!("the oldest row waits for {}", duration(age)),
        );
        format!(
            "{oldest}\n{rejected} rejected, {resting} resting\n{} KiB in the tables, settled rows included",
            bytes >> 10
        )
    })
}

fn list(found: &[AsideRow], output: Output) -> Result<(), Fault> {
    let mut rows = output.rows(&[">number", "since", "row", "why"]);
    let mut values: Vec<Value> = Vec::new();
    for AsideRow { number, reason, since, row } in found {
        let mut value = json!({
            "number": number, "verb": row.verb(), "topic": row.topic(), "id": row.id(), "reason": reason,
        });
        add_time(&mut value, "since", Some(*since));
        values.push(value);
        let asked = format!("{} {} {}", row.verb(), row.topic(), row.id());
        rows.row([number.to_string(), time(*since), asked, reason.clone()]);
    }
    output.print(&values, || if found.is_empty() { "none".to_owned() } else { rows.text() })
}

fn each(output: Output, numbers: &[u64], done: &[u64], word: &str) -> Result<(), Fault> {
    output.print(&json!({ "done": done }), || match done.is_empty() {
        true => "none".to_owned(),
        false => done.iter().map(|n| format!("{n} {word}")).collect::<Vec<_>>().join("\n"),
    })?;
    match numbers.len() - done.len() {
        0 => Ok(()),
        missing => {
            Err(unknown(format!("{missing} of the numbers are not such rows; see delayq outbox rejected")))
        }
    }
}
