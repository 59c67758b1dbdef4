//! `delayq topic`: policy, pause, rate, deletion.

mod policy;

pub(super) use policy::json_of as policy_of;

use crate::commands::topic::policy::Set;
use crate::commands::topics;
use crate::deployment::Context;
use crate::failure::{TOPIC_KEPT, of_core};
use crate::look::look;
use crate::output::time_from;
use crate::printable::printable;
use clap::{Args, Subcommand};
use delayq::admin::{PausedGroup, PolicySetting, TopicDeletion, Trained};
use delayq::{Group, Topic as Name};
use delayq_service::Fault;
use delayq_service::json::paused_group;
use serde_json::json;

/// Show or change a topic: policy, pause, rate, dictionary
#[derive(Debug, Args)]
pub struct Topic {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Show a topic's counts, pause, rate and policy
    Show {
        /// The topic
        topic: Name,
    },
    /// Change a topic's policy; settings that are not given are kept
    Set(Box<Set>),
    /// Stop delivering a topic, or one group of it: due messages wait
    Pause {
        /// The topic
        topic: Name,
        /// Pause only the messages of this group; messages of other groups pass
        #[arg(long)]
        group: Option<Group>,
    },
    /// Resume delivering a topic, or one group of it
    Resume {
        /// The topic
        topic: Name,
        /// Resume this group
        #[arg(long)]
        group: Option<Group>,
    },
    /// Delete a topic with its policy, if it holds no message. Its finished ids are no longer recognised: a put of one is a
    /// new message
    Delete {
        /// The topic
        topic: Name,
    },
    /// Train a compression dictionary on pending messages, and compress with it from now on
    TrainDictionary {
        /// The topic
        topic: Name,
        /// Sample at most this many pending payloads
        #[arg(long, value_name = "COUNT", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(100..=100_000))]
        samples: u32,
    },
    /// Deliver at most this many messages a second, over all shards; "none" for no limit
    Rate {
        /// The topic
        topic: Name,
        /// Messages a second, or none
        #[arg(value_parser = rate)]
        rate: Rate,
    },
}

const HOW_TO_EMPTY: &str = "Wait until they are delivered, or delete them: delayq purge, delayq dead purge. \
                            If delayq audit finds wrong counters: delayq repair.";

#[derive(Clone, Copy, Debug)]
struct Rate(Option<f64>);

// === impl Topic ===

impl Topic {
    /// Runs the subcommand.
    ///
    /// # Errors
    /// Redis cannot be used, a setting is refused, or the topic to delete holds messages.
    pub async fn run(self, context: &Context) -> Result<(), Fault> {
        let admin = context.admin();
        let (topic, done) = match self.action {
            Action::Show { topic } => return look(context, async |part| show(part, &topic).await).await,
            Action::Set(set) => return set.run(context).await,
            Action::Pause { topic, group } => {
                context.known_topic(&topic).await?;
                match &group {
                    None => admin.topic(&topic).pause().await,
                    Some(group) => admin.topic(&topic).pause_group(group).await,
                }
                .map_err(of_core)?;
                (topic, done("paused", group.as_ref()))
            }
            Action::Resume { topic, group } => {
                context.known_topic(&topic).await?;
                match &group {
                    None => admin.topic(&topic).resume().await,
                    Some(group) => admin.topic(&topic).resume_group(group).await,
                }
                .map_err(of_core)?;
                (topic, done("resumed", group.as_ref()))
            }
            Action::Delete { topic } => {
                delete(context, &topic).await?;
                (topic, "deleted".to_owned())
            }
            Action::TrainDictionary { topic, samples } => {
                context.known_topic(&topic).await?;
                let trained = admin.dictionaries().train(&topic, samples as usize).await.map_err(of_core)?;
                (topic, trained_text(trained))
            }
            Action::Rate { topic, rate: Rate(rate) } => {
                context.known_topic(&topic).await?;
                admin.topic(&topic).set_rate(rate).await.map_err(of_core)?;
                (topic, rate.map_or("unbounded".to_owned(), |rate| format!("at most {rate}/s")))
            }
        };
        context.output.print(&json!({ "topic": topic, "done": done }), || format!("{topic}: {done}"))
    }
}

fn done(what: &str, group: Option<&Group>) -> String {
    group.map_or_else(|| what.to_owned(), |group| format!("{what} its group {}", printable(group.as_str())))
}

fn trained_text(Trained { id, samples, plain_bytes, compressed_bytes, .. }: Trained) -> String {
    let times = plain_bytes as f64 / compressed_bytes.max(1) as f64;
    format!(
        "compressed with dictionary {id}: {samples} payloads of {plain_bytes} bytes took {compressed_bytes} ({times:.1} times less)"
    )
}

async fn delete(context: &Context, topic: &Name) -> Result<(), Fault> {
    match context.admin().topic(topic).delete().await.map_err(of_core)? {
        TopicDeletion::Deleted => Ok(()),
        TopicDeletion::Unknown => {
            context.known_topic(topic).await?;
            Err(Fault::new(&TOPIC_KEPT, format!("{topic} is being created: try again")))
        }
        TopicDeletion::Kept(shards) => {
            let (shard, why) = &shards[0];
            let more = match shards.len() {
                1 => String::new(),
                2 => ", and so does another shard".to_owned(),
                count => format!(", and so do {} more shards", count - 1),
            };
            let found = format!("{topic} is not empty: shard {shard} still has {why}{more}. {HOW_TO_EMPTY}");
            Err(Fault::new(&TOPIC_KEPT, found))
        }
    }
}

async fn show(context: &Context, topic: &Name) -> Result<(), Fault> {
    context.known_topic(topic).await?;
    let admin = context.admin();
    let numbers = admin.topic(topic).count().await.map_err(of_core)?;
    let policy = admin.topic(topic).policy().await.map_err(of_core)?;
    let paused_groups = match numbers.paused_groups {
        0 => Vec::new(),
        _ => admin.topic(topic).paused_groups().await.map_err(of_core)?,
    };
    let now = context.now().await?;
    let mut shown = topics::json_of(&numbers);
    shown["policy"] = policy::json_of(&policy);
    shown["groups_paused"] = paused_groups.iter().map(paused_group).collect();
    context.output.print(&shown, || {
        let mut rows = context.output.rows(&["field", "value"]);
        for (name, number) in topics::columns(&numbers) {
            rows.row([name.to_owned(), number.to_string()]);
        }
        for (name, at) in [
            ("next due", numbers.next_due),
            ("oldest ready", numbers.oldest_ready),
            ("oldest unhandled", numbers.oldest_unhandled),
        ] {
            rows.row([name.to_owned(), at.map_or("none".to_owned(), |at| time_from(at, now))]);
        }
        rows.row(["flow".to_owned(), topics::flow(&numbers)]);
        for PausedGroup { group, since } in &paused_groups {
            let group = printable(group.as_str());
            rows.row(["paused group".to_owned(), format!("{group}, since {}", time_from(*since, now))]);
        }
        for setting in PolicySetting::ALL {
            rows.row([setting.name().to_owned(), policy::in_force(&policy, setting)]);
        }
        rows.text()
    })
}

fn rate(text: &str) -> Result<Rate, String> {
    if text == "none" {
        return Ok(Rate(None));
    }
    match text.parse::<f64>() {
        Ok(rate) if rate.is_finite() && rate > 0.0 => Ok(Rate(Some(rate))),
        _ => Err("must be messages per second, more than 0, or none".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_positive_or_none() {
        assert!(matches!(rate("none"), Ok(Rate(None))) && matches!(rate("2.5"), Ok(Rate(Some(2.5)))));
        assert!(["0", "-1", "NaN", "inf", "many"].iter().all(|bad| rate(bad).is_err()));
    }
}
