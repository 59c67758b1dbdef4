//! `delayq audit`: checks the balance of the books and the place of every message.

use crate::commands::topics::json_of;
use crate::deployment::Context;
use crate::failure::{UNBALANCED, of_core};
use clap::Args;
use delayq::admin::{Audit as Audited, Numbers};
use delayq::{Admin, Topic};
use delayq_service::Fault;
use serde_json::{Value, json};
use std::time::Duration;

/// Maximum reads of numbers that do not balance: messages move while the shards are read in turn.
const TRIES: u32 = 5;
const TRY_AFTER: Duration = Duration::from_millis(200);

/// Check that the books balance, or that every message can be reached
///
/// Every accepted message is accounted for: accepted = delivered + cancelled + expired + dead + purged + replaced +
/// pending, in each topic.
///
/// With --bodies, checks every message, index entry and counter instead: a due time, ready queue, lease, dead letter or
/// marker has to lead to each message, and each entry to a message. This scans all keys of the Redis in small steps while
/// the deployment is in use. `delayq repair` repairs what it finds.
#[derive(Debug, Args)]
pub struct Audit {
    /// The topics; without any, all
    topics: Vec<Topic>,
    /// Check every message, entry and counter instead of the books
    #[arg(long, conflicts_with = "topics")]
    bodies: bool,
}

struct TopicBooks {
    topic: Topic,
    balances: bool,
    pending: u64,
    numbers: Numbers,
}

// === impl Audit ===

impl Audit {
    /// Prints the books.
    ///
    /// # Errors
    /// Redis cannot be used, or the books do not balance.
    pub async fn run(self, context: &Context) -> Result<(), Fault> {
        if self.bodies {
            return audit_bodies(context).await;
        }
        let lines = lines(context, self.topics).await?;
        let values: Vec<Value> = lines.iter().map(TopicBooks::json).collect();
        context.output.print(&values, || {
            let columns = [
                "topic",
                ">accepted",
                ">delivered",
                ">cancelled",
                "?>expired",
                ">dead",
                "?>purged",
                "?>replaced",
                ">pending",
                "books",
            ];
            let mut rows = context.output.rows(&columns);
            for TopicBooks { topic, balances, pending, numbers: n } in &lines {
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

// === impl TopicBooks ===

impl TopicBooks {
    fn json(&self) -> Value {
        let mut value = json_of(&self.numbers);
        value["topic"] = json!(self.topic);
        value["balances"] = self.balances.into();
        value["pending"] = self.pending.into();
        value
    }
}

pub(super) async fn books(context: &Context) -> Result<Vec<Value>, Fault> {
    Ok(lines(context, Vec::new()).await?.iter().map(TopicBooks::json).collect())
}

/// Every topic's books if none is given.
async fn lines(context: &Context, topics: Vec<Topic>) -> Result<Vec<TopicBooks>, Fault> {
    let admin = context.admin();
    let topics = if topics.is_empty() { admin.topics().await.map_err(of_core)? } else { topics };
    let mut lines = Vec::new();
    for topic in topics {
        let numbers = settled(&admin, &topic).await?;
        lines.push(TopicBooks { balances: numbers.balances(), pending: numbers.pending(), numbers, topic });
    }
    Ok(lines)
}

async fn audit_bodies(context: &Context) -> Result<(), Fault> {
    let audit = audited(context).await?;
    context.output.print(&audit, || report(context, &audit))?;
    match audit.is_clean() {
        true => Ok(()),
        false => {
            let found = audit.findings.len() + audit.drifts.len();
            Err(Fault::new(&UNBALANCED, format!("{found} faults; delayq repair shows how to fix them")))
        }
    }
}

pub(super) async fn audited(context: &Context) -> Result<Audited, Fault> {
    let bar = context.output.spinner();
    let audit = context.admin().audit().run(|looked_at| bar.set_position(looked_at)).await;
    bar.finish_and_clear();
    audit.map_err(of_core)
}

pub(super) fn report(context: &Context, audit: &Audited) -> String {
    let Audited { looked_at, entries, findings, drifts, uncounted, .. } = audit;
    let mut text = String::new();
    if audit.is_clean() {
        text = format!("checked {looked_at} messages and {entries} entries: no fault\n");
    }
    let mut rows = context.output.rows(&["shard", "topic", "found", "id", "group", "index", "delayq repair"]);
    for found in findings {
        let remedy = found.kind.remedy().to_owned();
        let kind = found.kind.to_string();
        let message = [found.topic.clone(), kind, found.id.clone(), found.group.clone()];
        let cells = std::iter::once(found.shard.to_string()).chain(message);
        rows.row(cells.chain([found.index.clone(), remedy]));
    }
    for drift in drifts {
        let (says, is) = (drift.says, drift.is);
        let kind = format!("{} is {says}, not {is}", drift.counter);
        let counter = [drift.shard.to_string(), drift.topic.clone(), kind, String::new(), String::new()];
        rows.row(counter.into_iter().chain(["stats".to_owned(), "set the counter right".to_owned()]));
    }
    if !audit.is_clean() {
        text.push_str(&rows.text());
    }
    for not in uncounted {
        text.push_str(&format!("skipped {} in shard {}: {}\n", not.topic, not.shard, not.why));
    }
    text.trim_end().to_owned()
}

async fn settled(admin: &Admin, topic: &Topic) -> Result<Numbers, Fault> {
    let mut numbers = admin.topic(topic).count().await.map_err(of_core)?;
    for _ in 1..TRIES {
        if numbers.balances() {
            break;
        }
        tokio::time::sleep(TRY_AFTER).await;
        numbers = admin.topic(topic).count().await.map_err(of_core)?;
    }
    Ok(numbers)
}
