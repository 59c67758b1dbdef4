//! `delayq audit`: whether the books balance, and whether every message is in its place.

use std::time::Duration;

use clap::Args;
use delayq_core::{Admin, Astray, Bodies, Numbers, Topic};
use delayq_service::Fault;
use indicatif::ProgressBar;
use serde::Serialize;
use serde_json::json;

use crate::deployment::Context;
use crate::failure::{UNBALANCED, of_core};

/// How often numbers that do not balance are read again: shards are read one after the other, while messages move.
const TRIES: u32 = 5;
const TRY_AFTER: Duration = Duration::from_millis(200);

/// Check that the books balance, or that every message is in its place
///
/// Every accepted message is accounted for: accepted = delivered + cancelled + expired + dead + purged + replaced +
/// pending, in each topic.
///
/// With --bodies each message's body is looked at instead: whether a due time, a lease, a dead letter or a marker leads to
/// it. That walks over all keys of the Redis, some seconds for a million, while everything goes on.
#[derive(Debug, Args)]
pub struct Audit {
    /// The topics; without any, all
    topics: Vec<Topic>,
    /// Look at every message's body instead of the books
    #[arg(long, conflicts_with = "topics")]
    bodies: bool,
}

#[derive(Serialize)]
struct Line {
    topic: Topic,
    balances: bool,
    pending: u64,
    #[serde(flatten)]
    numbers: Numbers,
}

// === impl Audit ===

impl Audit {
    /// Prints the books.
    ///
    /// # Errors
    /// Redis cannot be used, or they do not balance.
    pub async fn run(self, context: &Context) -> Result<(), Fault> {
        if self.bodies {
            return audit_bodies(context).await;
        }
        let admin = context.admin();
        let topics =
            if self.topics.is_empty() { admin.topics().await.map_err(of_core)? } else { self.topics };
        let mut lines = Vec::new();
        for topic in topics {
            let numbers = settled(&admin, &topic).await?;
            lines.push(Line { balances: numbers.balances(), pending: numbers.pending(), numbers, topic });
        }
        context.output.print(&lines, || {
            let columns = [
                "topic",
                ">accepted",
                ">delivered",
                ">cancelled",
                ">expired",
                ">dead",
                ">purged",
                ">replaced",
                ">pending",
                "books",
            ];
            let mut rows = context.output.rows(&columns);
            for Line { topic, balances, pending, numbers: n } in &lines {
                let numbers =
                    [n.accepted, n.delivered, n.cancelled, n.expired, n.dead, n.purged, n.replaced, *pending];
                let verdict = if *balances { "balance" } else { "DO NOT BALANCE" };
                let cells = std::iter::once(topic.to_string()).chain(numbers.map(|n| n.to_string()));
                rows.judged(*balances, cells.chain([verdict.to_owned()]));
            }
            rows.text()
        })?;
        let off: Vec<&str> =
            lines.iter().filter(|line| !line.balances).map(|line| line.topic.as_str()).collect();
        match off.is_empty() {
            true => Ok(()),
            false => Err(Fault::new(&UNBALANCED, format!("the books of {} do not balance", off.join(", ")))),
        }
    }
}

async fn audit_bodies(context: &Context) -> Result<(), Fault> {
    let bar = if context.output.lively { ProgressBar::new_spinner() } else { ProgressBar::hidden() };
    let bodies = context.admin().audit_bodies(|looked_at| bar.set_position(looked_at)).await;
    bar.finish_and_clear();
    let Bodies { looked_at, astray } = &bodies.map_err(of_core)?;
    let count = astray.len();
    context.output.print(&json!({ "looked_at": looked_at, "astray": astray }), || {
        if astray.is_empty() {
            return format!("{looked_at} bodies, all in their places");
        }
        let mut rows = context.output.rows(&["shard", "topic", "id"]);
        for Astray { shard, topic, id } in astray {
            rows.row([shard.to_string(), topic.clone(), id.clone()]);
        }
        rows.text()
    })?;
    match count {
        0 => Ok(()),
        _ => Err(Fault::new(&UNBALANCED, format!("{count} of {looked_at} bodies stand in no place"))),
    }
}

async fn settled(admin: &Admin, topic: &Topic) -> Result<Numbers, Fault> {
    let mut numbers = admin.count(topic).await.map_err(of_core)?;
    for _ in 1..TRIES {
        if numbers.balances() {
            break;
        }
        tokio::time::sleep(TRY_AFTER).await;
        numbers = admin.count(topic).await.map_err(of_core)?;
    }
    Ok(numbers)
}
