//! `delayq promote`.

use crate::commands::list::range;
use crate::commands::purge::{delayed, due_in, kept};
use crate::commands::reschedule::Reschedule;
use crate::confirm::confirm;
use crate::deployment::Context;
use crate::failure::{of_core, usage};
use crate::output::counted;
use clap::Args;
use delayq::admin::{Promotable, PromoteOptions, TimeRange};
use delayq::{Group, Members, MessageId, Topic};
use delayq_service::Fault;
use delayq_service::when::When;
use serde_json::json;

/// Make delayed messages ready now
///
/// One message, or all that are due in a range: of a topic, of a group, or of a group in a topic. Shows how many are about
/// to be delivered, and asks. In each shard the earliest due comes first. Works in bounded steps; safe to repeat after an
/// interruption.
#[derive(Debug, Args)]
pub struct Promote {
    /// The topic
    #[arg(required_unless_present = "group")]
    topic: Option<Topic>,
    /// The id of a single message
    #[arg(conflicts_with_all = ["from", "until", "max", "rate", "yes"])]
    id: Option<MessageId>,
    /// Only messages of this group; without a topic, of all topics
    #[arg(long, short = 'g')]
    group: Option<Group>,
    /// Due from this time
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    from: Option<When>,
    /// Due up to this time
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    until: Option<When>,
    /// Maximum number of messages
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    max: Option<u64>,
    /// Maximum number per second
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    rate: Option<u32>,
    /// Do not ask: a delivery cannot be undone
    #[arg(long)]
    yes: bool,
}

// === impl Promote ===

impl Promote {
    /// Promotes the messages.
    ///
    /// # Errors
    /// Redis cannot be used, or there is no such topic or message.
    pub async fn run(self, context: &Context) -> Result<(), Fault> {
        if let (Some(topic), Some(id)) = (&self.topic, &self.id) {
            return Reschedule::to_now(topic.clone(), id.clone(), self.group.clone()).run(context).await;
        }
        let (which, name) = self.which(context).await?;
        let due = range(context, self.from, self.until).await?;
        confirm(&self.intent(context, due, &name).await?, self.yes)?;
        let bar = context.output.spinner();
        let mut options = PromoteOptions::default().due(due);
        (options.max_messages, options.rate) = (self.max, self.rate);
        let promoted = context.admin().promote(which, &options, |so_far| bar.set_position(so_far)).await;
        bar.finish_and_clear();
        let promoted = promoted.map_err(of_core)?;
        let mut value = json!({ "promoted": promoted.promoted, "kept": promoted.kept });
        self.topic.iter().for_each(|topic| value["topic"] = topic.as_str().into());
        self.group.iter().for_each(|group| value["group"] = group.as_str().into());
        context.output.print(&value, || {
            format!("promoted {} of {name}{}", counted(promoted.promoted, "message"), kept(promoted.kept))
        })
    }

    /// Also the name of this set in a sentence.
    async fn which(&self, context: &Context) -> Result<(Promotable, String), Fault> {
        let topic = match (&self.topic, &self.group) {
            (topic, Some(group)) => {
                let members = Members { group: group.clone(), topic: topic.clone() };
                context.known_members(&members).await?;
                return Ok((Promotable::from(&members), members.to_string()));
            }
            (Some(topic), None) => topic,
            (None, None) => return Err(usage("TOPIC or --group is required")),
        };
        context.known_topic(topic).await?;
        Ok((Promotable::from(topic), topic.to_string()))
    }

    async fn intent(&self, context: &Context, due: TimeRange, name: &str) -> Result<String, Fault> {
        let at_most = self.max.map(|max| format!(", at most {max}")).unwrap_or_default();
        let range = due_in(due);
        Ok(match (&self.topic, &self.group) {
            (Some(topic), None) => {
                let count = delayed(context, topic, due).await?;
                format!(
                    "this makes {} of {name}{range} ready now{at_most}",
                    counted(count, "delayed message")
                )
            }
            _ => format!("this makes every delayed message of {name}{range} ready now{at_most}"),
        })
    }
}
