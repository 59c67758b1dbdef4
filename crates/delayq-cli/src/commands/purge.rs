//! `delayq purge`.

use crate::commands::list::range;
use crate::confirm::confirm;
use crate::deployment::Context;
use crate::failure::{of_core, usage};
use crate::output::{counted, time};
use clap::{Args, ValueEnum};
use delayq::Topic;
use delayq::admin::{PurgeWhat, TimeRange};
use delayq_service::Fault;
use delayq_service::when::When;
use serde_json::json;
use std::time::Duration;

/// The widest interval that Redis counts in a single step.
const HOUR: Duration = Duration::from_secs(3600);

/// Delete a topic's pending messages
///
/// Shows how many it is about to delete, and asks. Deletes in bounded steps; safe to repeat after an interruption.
#[derive(Debug, Args)]
pub struct Purge {
    /// The topic
    topic: Topic,
    /// The state of the messages; for dead letters see delayq dead purge
    #[arg(long, value_enum, default_value_t = Purgeable::Delayed)]
    state: Purgeable,
    /// Due from this time
    #[arg(long, value_name = "TIME")]
    from: Option<When>,
    /// Due up to this time
    #[arg(long, value_name = "TIME")]
    until: Option<When>,
    /// Do not ask: they cannot be restored
    #[arg(long)]
    yes: bool,
}

/// What can be purged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Purgeable {
    /// Waiting for the due time
    Delayed,
    /// Waiting to be reserved
    Ready,
}

// === impl Purge ===

impl Purge {
    /// Deletes the messages.
    ///
    /// # Errors
    /// Redis cannot be used.
    pub async fn run(self, context: &Context) -> Result<(), Fault> {
        context.known_topic(&self.topic).await?;
        let what = match self.state {
            Purgeable::Delayed => PurgeWhat::Delayed(range(context, self.from, self.until).await?),
            Purgeable::Ready if self.from.is_some() || self.until.is_some() => {
                return Err(usage("--from and --until need --state delayed"));
            }
            Purgeable::Ready => PurgeWhat::Ready,
        };
        confirm(&self.intent(context, what).await?, self.yes)?;
        let bar = context.output.spinner();
        let purged = context.admin().topic(&self.topic).purge(what, |so_far| bar.set_position(so_far)).await;
        bar.finish_and_clear();
        let purged = purged.map_err(of_core)?;
        let topic = &self.topic;
        let value = json!({ "topic": topic, "purged": purged.purged, "kept": purged.kept });
        context.output.print(&value, || {
            format!("purged {} of {topic}{}", counted(purged.purged, "message"), kept(purged.kept))
        })
    }

    async fn intent(&self, context: &Context, what: PurgeWhat) -> Result<String, Fault> {
        let (admin, topic) = (context.admin(), &self.topic);
        let (count, noun, due) = match what {
            PurgeWhat::Delayed(range) => {
                (delayed(context, topic, range).await?, "delayed message", due_in(range))
            }
            _ => (admin.topic(topic).count().await.map_err(of_core)?.ready, "ready message", String::new()),
        };
        Ok(format!("this permanently deletes {} of {topic}{due}", counted(count, noun)))
    }
}

/// The number of delayed messages of a topic in a range.
///
/// # Errors
/// Redis cannot be used.
pub async fn delayed(context: &Context, topic: &Topic, range: TimeRange) -> Result<u64, Fault> {
    let slots = context.admin().topic(topic).histogram(range, HOUR).await.map_err(of_core)?;
    Ok(slots.iter().map(|slot| slot.count).sum())
}

/// The bounds of a range, if any, as a part of a sentence.
pub fn due_in(range: TimeRange) -> String {
    let from = (range.from > TimeRange::ALL.from).then(|| format!(" from {}", time(range.from)));
    let to = (range.to < TimeRange::ALL.to).then(|| format!(" up to {}", time(range.to)));
    match (from, to) {
        (None, None) => String::new(),
        (from, to) => format!(", due{}{},", from.unwrap_or_default(), to.unwrap_or_default()),
    }
}

/// The messages that a command had to leave, as the end of a sentence.
pub fn kept(kept: u64) -> String {
    match kept {
        0 => String::new(),
        kept => {
            format!("; kept {kept}: of a later format, or blocked by a key of the wrong type")
        }
    }
}
