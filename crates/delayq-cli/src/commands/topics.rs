//! `delayq topics`.

use crate::deployment::Context;
use crate::look::{finish, topics};
use crate::output::{age, counted, distance};
use clap::Args;
use delayq::Topic;
use delayq::admin::Numbers;
use delayq_look::{Look, Want, Which};
use delayq_service::Fault;
pub use delayq_service::json::numbers as json_of;
use serde_json::{Value, json};

/// List topics with their counts
///
/// READY FOR is how long the oldest ready message of a topic has waited for a consumer, UNHANDLED also counts what consumers
/// hold, from its due time.
#[derive(Debug, Args)]
pub struct Topics {}

// === impl Topics ===

impl Topics {
    /// Prints the topics.
    ///
    /// # Errors
    /// Redis cannot be used.
    pub async fn run(self, context: &Context) -> Result<(), Fault> {
        let look =
            Look::take(&context.deployment, Want { topics: Which::All(None), ..Want::default() }).await;
        finish(&look, print(context, &look))
    }
}

fn print(context: &Context, look: &Look) -> Result<(), Fault> {
    let (topics, now) = (&topics(look)?.numbers, look.now());
    let values: Vec<Value> = topics.iter().map(|(topic, numbers)| line(topic, numbers)).collect();
    context.output.print(&values, || {
        if topics.is_empty() {
            return "no topic yet; the first put creates one".to_owned();
        }
        let columns = [
            "topic",
            ">delayed",
            ">ready",
            ">leased",
            ">dead",
            ">ready for",
            ">unhandled",
            "?>delivered",
            "?>cancelled",
            "next due",
            "flow",
        ];
        let mut rows = context.output.rows(&columns);
        for (topic, numbers) in topics {
            let next = numbers.next_due.map(|due| distance(due, now)).unwrap_or_default();
            let pending = [numbers.delayed, numbers.ready, numbers.leased, numbers.dead];
            let ages = [numbers.oldest_ready, numbers.oldest_unhandled].map(|since| age(since, now));
            let ended = [numbers.delivered, numbers.cancelled].map(|count| count.to_string());
            let cells = std::iter::once(topic.to_string()).chain(pending.map(|count| count.to_string()));
            rows.row(cells.chain(ages).chain(ended).chain([next, flow(numbers)]));
        }
        rows.text()
    })
}

/// A topic with all numbers.
fn line(topic: &Topic, numbers: &Numbers) -> Value {
    let mut value = json_of(numbers);
    value["topic"] = json!(topic);
    value
}

/// Every number with a name, in the order in which the books are read.
pub fn columns(numbers: &Numbers) -> [(&'static str, u64); 11] {
    [
        ("delayed", numbers.delayed),
        ("ready", numbers.ready),
        ("leased", numbers.leased),
        ("dead", numbers.dead),
        ("accepted", numbers.accepted),
        ("delivered", numbers.delivered),
        ("cancelled", numbers.cancelled),
        ("expired", numbers.expired),
        ("purged", numbers.purged),
        ("replaced", numbers.replaced),
        ("buried", numbers.buried),
    ]
}

/// Describes the flow of a topic's ready messages.
pub fn flow(numbers: &Numbers) -> String {
    let flow = match (numbers.unreadable, numbers.paused, numbers.rate) {
        (0, 0, None) => "free".to_owned(),
        (0, 0, Some(rate)) => format!("at most {rate:.1}/s"),
        (0, ..) => return "paused".to_owned(),
        _ => return "unreadable keys: delayq audit".to_owned(),
    };
    let flow = match numbers.paused_groups {
        0 => flow,
        groups => format!("{flow}, {} paused", counted(groups, "group")),
    };
    match numbers.blocking {
        0 => flow,
        failed => format!("{flow}, groups blocked by {}", counted(failed, "failed message")),
    }
}
