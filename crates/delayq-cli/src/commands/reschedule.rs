//! `delayq reschedule`.

use crate::deployment::Context;
use crate::failure::{of_core, refused, usage};
use crate::naming::{elsewhere, named};
use crate::output::time;
use clap::Args;
use delayq::{
    Due, Group, Members, MessageId, Reschedule as Change, RescheduleOutcome, Shift, Target, Topic, UnixMillis,
};
use delayq_service::Fault;
use delayq_service::config::HumanDuration;
use delayq_service::json::reschedule as json_of;
use delayq_service::when::When;
use serde_json::json;
use std::time::Duration;

/// Change the due time of a message, or of a whole group
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("change").required(true).args(["to", "after", "by"]))]
pub struct Reschedule {
    /// Its topic
    #[arg(required_unless_present = "all")]
    topic: Option<Topic>,
    /// Its id
    #[arg(required_unless_present = "all")]
    id: Option<MessageId>,
    /// Its group: an own id is another message in each group
    #[arg(long, short = 'g')]
    group: Option<Group>,
    /// To this time
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    to: Option<When>,
    /// This long from now
    #[arg(long = "in", value_name = "DURATION", allow_hyphen_values = true)]
    after: Option<HumanDuration>,
    /// By this much later, or with a minus earlier, than it is due now: 10m, -90s
    #[arg(long, value_name = "DIFFERENCE", allow_hyphen_values = true, value_parser = difference)]
    by: Option<Shift>,
    /// Accept milliseconds before 2001 or after 9999, which are refused otherwise: seconds or microseconds are usually meant
    #[arg(long, requires = "to", conflicts_with_all = ["after", "by"])]
    past_ok: bool,
    /// Only if this is its current due time
    #[arg(long, value_name = "TIME")]
    expected: Option<When>,
    /// Every pending message of the group, with --by
    #[arg(long, requires_all = ["group", "by"], conflicts_with_all = ["topic", "id", "to", "after", "expected"])]
    all: bool,
    /// With --all: only those of this topic
    #[arg(long = "topic", short = 't', value_name = "TOPIC", requires = "all", conflicts_with_all = ["topic", "id"])]
    of_topic: Option<Topic>,
    /// With --all: a name for this shift; a repeat under the same name moves nothing twice
    #[arg(long, requires = "all", conflicts_with_all = ["topic", "id"], required_if_eq("all", "true"))]
    token: Option<String>,
}

// === impl Reschedule ===

impl Reschedule {
    /// Makes a single message ready now.
    pub const fn to_now(topic: Topic, id: MessageId, group: Option<Group>) -> Self {
        Self {
            topic: Some(topic),
            id: Some(id),
            group,
            to: None,
            after: Some(HumanDuration::from_millis(0)),
            by: None,
            past_ok: false,
            expected: None,
            all: false,
            of_topic: None,
            token: None,
        }
    }

    /// Reschedules the messages.
    ///
    /// # Errors
    /// Redis cannot be used, or the message cannot be moved.
    pub async fn run(self, context: &Context) -> Result<(), Fault> {
        let (Some(topic), Some(id)) = (&self.topic, &self.id) else { return self.run_group(context).await };
        let target = Target { id: id.clone(), group: self.group.clone() };
        let change = self.change(context, topic, &target).await?;
        let outcome = context.producer()?.reschedule(topic, &target, change).await.map_err(of_core)?;
        context.output.print(&json_of(id, &outcome), || sentence(&target, &outcome))?;
        match outcome {
            RescheduleOutcome::Moved { .. } | RescheduleOutcome::Spooled => Ok(()),
            RescheduleOutcome::Refused(why) => {
                Err(usage(format!("{id} was not moved: its {why} is out of range")))
            }
            RescheduleOutcome::Unknown => Err(context.unknown_message(topic, &target).await),
            _ => Err(refused(format!("{id} was not moved"))),
        }
    }

    async fn run_group(&self, context: &Context) -> Result<(), Fault> {
        let (Some(group), Some(by), Some(token)) = (&self.group, self.by, &self.token) else {
            return Err(usage("--all needs --group, --by and --token"));
        };
        if by.millis() == 0 {
            return Err(usage("--by 0 moves nothing"));
        }
        let members = Members { group: group.clone(), topic: self.of_topic.clone() };
        context.known_members(&members).await?;
        let tally = context.producer()?.reschedule_group(&members, by, token).await.map_err(of_core)?;
        if tally.busy {
            return Err(refused(format!(
                "another shift of group {group} is under way; finish it with its token first"
            )));
        }
        let mut value = json!({
            "group": group.as_str(), "moved": tally.changed, "passed": tally.passed,
            "outcome": if tally.spooled { "spooled" } else { "moved" },
        });
        members.topic.iter().for_each(|topic| value["topic"] = topic.as_str().into());
        context.output.print(&value, || match tally.spooled {
            true => format!("spooled: the compensator will move {members} when Redis accepts writes again"),
            false => format!("moved {} of {members}; {} unchanged", tally.changed, tally.passed),
        })
    }

    async fn change(&self, context: &Context, topic: &Topic, target: &Target) -> Result<Change, Fault> {
        let expected = match self.expected.map(|when| when.due(true)).transpose().map_err(usage)? {
            Some(Due::At(at)) => Some(at),
            Some(Due::After(_)) => return Err(usage("--expected must be an absolute time")),
            None => None,
        };
        if let Some(by) = self.by {
            let expected = match expected {
                Some(expected) => expected,
                None => due_of(context, topic, target).await?,
            };
            return Ok(Change::By(by, expected));
        }
        let due = match (self.to, self.after) {
            (Some(to), _) => past_is_now(to.due(self.past_ok).map_err(usage)?),
            (None, Some(after)) => Due::After(*after),
            (None, None) => return Err(usage("one of --to, --in and --by is required")),
        };
        Ok(expected.map_or(Change::To(due), |expected| Change::ToIfDue(due, expected)))
    }
}

/// The library refuses a time that looks like seconds. Taken as milliseconds, that time is long past.
fn past_is_now(due: Due) -> Due {
    if due.check().is_ok() { due } else { Due::After(Duration::ZERO) }
}

async fn due_of(context: &Context, topic: &Topic, target: &Target) -> Result<UnixMillis, Fault> {
    let listed = context.admin().topic(topic).get(target).await.map_err(of_core)?;
    let Some(listed) = listed else { return Err(context.unknown_message(topic, target).await) };
    Ok(listed.envelope.map_err(usage)?.due)
}

/// Reads `10m` and `-90s`.
fn difference(text: &str) -> Result<Shift, String> {
    let span = |text: &str| text.parse::<HumanDuration>().map(|span| *span);
    match text.strip_prefix('-') {
        Some(earlier) => span(earlier).map(Shift::Earlier),
        None => span(text.strip_prefix('+').unwrap_or(text)).map(Shift::Later),
    }
}

fn sentence(target: &Target, outcome: &RescheduleOutcome) -> String {
    let id = named(&target.id, target.group.as_ref());
    match outcome {
        RescheduleOutcome::Moved { old, due, ready } => {
            let ready = if *ready { ": it is ready" } else { "" };
            format!("moved {id} from {} to {}{ready}", time(*old), time(*due))
        }
        RescheduleOutcome::Changed(due) => {
            format!("{id} is due {}, not at the --expected time", time(*due))
        }
        RescheduleOutcome::Leased => format!("{id} is leased now"),
        RescheduleOutcome::Dead => format!("{id} is a dead letter; see delayq dead replay"),
        RescheduleOutcome::Finished(state, at) => format!("{id} is finished: {state} {}", time(*at)),
        RescheduleOutcome::Unknown => format!("no message {id}{}", elsewhere(target)),
        RescheduleOutcome::Spooled => {
            format!("spooled {id}: the compensator will move it when Redis accepts writes again")
        }
        RescheduleOutcome::Refused(why) => format!("{id} was refused: {why}"),
        RescheduleOutcome::Failed(why) => format!("{id} could not be moved: {why}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_has_a_sign() {
        let seconds = std::time::Duration::from_secs;
        assert_eq!(difference("10m"), Ok(Shift::Later(seconds(600))));
        assert_eq!(difference("+1s"), Ok(Shift::Later(seconds(1))));
        assert_eq!(difference("-90s"), Ok(Shift::Earlier(seconds(90))));
        assert!(difference("--1s").is_err() && difference("5").is_err());
    }
}
