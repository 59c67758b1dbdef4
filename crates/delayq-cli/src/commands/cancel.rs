//! `delayq cancel`.

use crate::deployment::Context;
use crate::failure::{self, of_core, refused, usage};
use crate::naming::elsewhere;
use crate::output::time;
use clap::Args;
use delayq::{CancelOutcome, Group, Members, MessageId, Target, Topic};
use delayq_service::Fault;
use delayq_service::json::cancel as json_of;
use serde_json::{Value, json};

/// Cancel messages
#[derive(Debug, Args)]
pub struct Cancel {
    /// Their topic
    #[arg(required_unless_present = "all")]
    topic: Option<Topic>,
    /// Their ids
    #[arg(required_unless_present = "all")]
    ids: Vec<MessageId>,
    /// Their group: an own id is another message in each group
    #[arg(long, short = 'g')]
    group: Option<Group>,
    /// Every pending message of the group, whatever its topic
    #[arg(long, requires = "group", conflicts_with_all = ["topic", "ids"])]
    all: bool,
    /// With --all: only those of this topic
    #[arg(long = "topic", short = 't', value_name = "TOPIC", requires = "all", conflicts_with_all = ["topic", "ids"])]
    of_topic: Option<Topic>,
}

// === impl Cancel ===

impl Cancel {
    /// Cancels the messages.
    ///
    /// # Errors
    /// Redis cannot be used; or a message is unknown, and all known messages were cancelled.
    pub async fn run(self, context: &Context) -> Result<(), Fault> {
        let producer = context.producer()?;
        let Some(topic) = self.topic else {
            let group = self.group.ok_or_else(|| usage("--all needs a --group"))?;
            let members = Members { group, topic: self.of_topic };
            context.known_members(&members).await?;
            let tally = producer.cancel_group(&members).await.map_err(of_core)?;
            let mut value = json!({
                "group": members.group.as_str(), "cancelled": tally.changed, "leased_or_failed": tally.passed,
                "outcome": if tally.spooled { "spooled" } else { "cancelled" },
            });
            members.topic.iter().for_each(|topic| value["topic"] = topic.as_str().into());
            return context.output.print(&value, || match tally.spooled {
                true => {
                    format!("spooled: the compensator will cancel {members} when Redis accepts writes again")
                }
                false => {
                    format!(
                        "cancelled {} of {members}; {} leased or not cancelled",
                        tally.changed, tally.passed
                    )
                }
            });
        };
        let targets: Vec<Target> =
            self.ids.into_iter().map(|id| Target { id, group: self.group.clone() }).collect();
        let outcomes = producer.cancel_many(&topic, &targets).await;
        let outcomes = outcomes.into_iter().collect::<Result<Vec<_>, _>>().map_err(of_core)?;
        let values: Vec<Value> =
            targets.iter().zip(&outcomes).map(|(target, outcome)| json_of(&target.id, outcome)).collect();
        context.output.print(&values, || {
            let mut rows = context.output.rows(&["id", "outcome"]);
            for (target, outcome) in targets.iter().zip(&outcomes) {
                rows.judged(is_taken(outcome), [target.id.to_string(), sentence(target, outcome)]);
            }
            rows.text()
        })?;
        let not = outcomes.iter().filter(|outcome| !is_taken(outcome)).count();
        let unknown = outcomes.iter().filter(|outcome| **outcome == CancelOutcome::Unknown).count();
        match (not, targets.as_slice()) {
            (0, _) => Ok(()),
            (1, [only]) if unknown == 1 => Err(context.unknown_message(&topic, only).await),
            _ if not == unknown => Err(failure::unknown(format!("{not} of {} do not exist", outcomes.len()))),
            _ => Err(refused(format!("{not} of {} could not be cancelled", outcomes.len()))),
        }
    }
}

/// Done, or certain to be done.
const fn is_taken(outcome: &CancelOutcome) -> bool {
    matches!(outcome, CancelOutcome::Cancelled | CancelOutcome::Leased | CancelOutcome::Spooled)
}

fn sentence(target: &Target, outcome: &CancelOutcome) -> String {
    match outcome {
        CancelOutcome::Cancelled => "cancelled".to_owned(),
        CancelOutcome::Leased => "leased: it may still be delivered once, and will not be retried".to_owned(),
        CancelOutcome::Dead => "it is a dead letter".to_owned(),
        CancelOutcome::Finished(state, at) => format!("finished: {state} {}", time(*at)),
        CancelOutcome::Unknown => format!("no such message{}", elsewhere(target)),
        CancelOutcome::Spooled => {
            "spooled: the compensator will cancel it when Redis accepts writes again".to_owned()
        }
        CancelOutcome::Failed(why) => format!("failed: {why}"),
    }
}
