//! `delayq log`.

use crate::deployment::Context;
use crate::failure::of_core;
use crate::listing::{json_of, story};
use crate::naming::named;
use crate::output::{counted, duration, time, time_from};
use crate::printable::printable;
use clap::Args;
use delayq::admin::{Happening, History, HistoryEvent, Next};
use delayq::{Group, MessageId, Target, Topic, UnixMillis};
use delayq_service::Fault;
use delayq_service::json::{events, with_holders};
use serde_json::{Value, json};

/// Show what happened to a message
///
/// Shows its history, if its topic keeps one, and what is stored about it. Turn the history on with delayq topic set TOPIC
/// --history 1000.
#[derive(Debug, Args)]
pub struct Log {
    /// Its topic
    topic: Topic,
    /// Its id
    id: MessageId,
    /// Its group: an own id is another message in each group
    #[arg(long, short = 'g')]
    group: Option<Group>,
}

// === impl Log ===

impl Log {
    /// Prints the history of a message.
    ///
    /// # Errors
    /// Redis cannot be used, or the message is unknown.
    pub async fn run(self, context: &Context) -> Result<(), Fault> {
        let target = Target { id: self.id, group: self.group };
        let history = context.admin().topic(&self.topic).history(&target).await.map_err(of_core)?;
        let found = context.admin().topic(&self.topic).get(&target).await.map_err(of_core)?;
        if found.is_none() && history.events.is_empty() {
            return Err(context.unknown_message(&self.topic, &target).await);
        }
        let (now, name) = (context.now().await?, named(&target.id, target.group.as_ref()));
        let mut value = found
            .as_ref()
            .map_or_else(|| json_of_name(&self.topic, &target), |listed| json_of(listed, false));
        value["history_kept"] = history.kept.into();
        value["history_cut"] = history.is_cut().into();
        value["events"] = events(&history);
        context.output.print(&value, || {
            let head = found.as_ref().map_or_else(
                || format!("{name} of {}: no longer stored", self.topic),
                |listed| format!("{name} of {} (shard {})", listed.topic, listed.shard),
            );
            let mut text = [vec![head], lines(&history, now)].concat().join("\n  ");
            text.extend(found.iter().map(|listed| format!("\nNow\n  {}", story(listed, now).join("\n  "))));
            format!("{text}{}", remark(&self.topic, &history))
        })
    }
}

fn json_of_name(topic: &Topic, target: &Target) -> Value {
    json!({ "id": target.id, "topic": topic, "group": target.group.as_ref().map(Group::as_str) })
}

fn remark(topic: &Topic, history: &History) -> String {
    if history.kept == 0 {
        return format!(
            "\n{topic} has no history. To record new messages: delayq topic set {topic} --history 1000"
        );
    }
    if !history.is_cut() {
        return String::new();
    }
    let (events, span) = (counted(history.kept.into(), "event"), duration(history.kept_for));
    format!("\nEarlier events are gone: since history was enabled, a shard keeps about {events}, for {span}.")
}

/// A settlement names the holder of the message.
fn lines(history: &History, now: UnixMillis) -> Vec<String> {
    let line = |(event, holder): (&HistoryEvent, Option<&str>)| {
        let by = holder.map(|by| format!(" by {by}")).unwrap_or_default();
        let line = format!("{}  {}{by}", time_from(event.at, now), sentence(&event.what));
        // A reason may have several lines, which would look like events.
        printable(&line).into_owned()
    };
    with_holders(history).map(line).collect()
}

fn sentence(what: &Happening) -> String {
    let because = |reason: &str| if reason.is_empty() { String::new() } else { format!(": {reason}") };
    let next = |next: &Next| match next.ready {
        true => "ready at once".to_owned(),
        false => format!("due {}", time(next.due)),
    };
    match what {
        Happening::Put(to) => format!("put, {}", next(to)),
        Happening::Replaced => "replaced by another put".to_owned(),
        Happening::Rescheduled { from, next } => {
            let ready = if next.ready { ", ready at once" } else { "" };
            format!("rescheduled from {} to {}{ready}", time(*from), time(next.due))
        }
        Happening::Ready => "ready".to_owned(),
        Happening::Leased { attempt, until, .. } => {
            format!("leased until {} for attempt {attempt}", time(*until))
        }
        Happening::Released { next: to, reason } => format!("released, {}{}", next(to), because(reason)),
        Happening::Failed { next: to, reason } => format!("attempt failed, {}{}", next(to), because(reason)),
        Happening::LeaseEnded(to) => format!("lease ran out, {}", next(to)),
        Happening::CancelRequested => "cancelled while leased: no retry".to_owned(),
        Happening::Buried { reason } => format!("buried{}", because(reason)),
        Happening::Replayed(to) => format!("replayed, {}", next(to)),
        Happening::Repaired => "put back in place by delayq repair".to_owned(),
        other => other.word().to_owned(),
    }
}
