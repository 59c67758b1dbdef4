//! Topics: counts, the histogram of due times, pause, rate, deletion.

use super::answer::{Answer, counted, json, nothing};
use super::listing::{limit, range};
use crate::input::Ask;
use crate::problem::{Kind, Problem};
use axum::http::StatusCode;
use delayq::admin::{Numbers, Slot, TopicDeletion};
use delayq::{Group, Topic};
use delayq_service::config::HumanDuration;
use delayq_service::json::{add_time, numbers, paused_group, policy};
use serde::Deserialize;
use serde_json::{Value, json as value};
use std::ops::RangeInclusive;
use std::time::Duration;

/// In messages a second. Each of up to 4,096 shards has its part, which Redis takes from 1e-9 to 1e9.
const RATES: RangeInclusive<f64> = 1e-5..=1e9;
/// Topics of a page without `limit`: each is counted.
const DEFAULT_LIMIT: usize = 100;
const HOUR: Duration = Duration::from_secs(3600);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Rate {
    /// Messages a second; null: no limit. An empty object must not take the limit away.
    #[serde(deserialize_with = "Option::deserialize")]
    rate: Option<f64>,
}

pub(super) async fn list(ask: Ask) -> Answer {
    let (limit, after) = (limit(&ask.query, DEFAULT_LIMIT)?, ask.query.get::<Topic>("after")?);
    let topics = ask.scope.topics().await?;
    let mut behind =
        topics.into_iter().skip_while(|topic| after.as_ref().is_some_and(|after| topic <= after));
    let topics: Vec<Topic> = behind.by_ref().take(limit).collect();
    let counted = topics.iter().zip(ask.scope.count_each(&topics).await?);
    let counted: Vec<Value> = counted.map(|(topic, count)| of_topic(topic, &count)).collect();
    let next = behind.next().and(topics.last());
    Ok(json(StatusCode::OK, &value!({ "topics": counted, "next": next })))
}

fn of_topic(topic: &Topic, count: &Numbers) -> Value {
    let mut value = numbers(count);
    value["topic"] = value!(topic);
    value
}

pub(super) async fn get(ask: Ask) -> Answer {
    let topic = ask.topic()?;
    let count = ask.scope.count(&topic).await?;
    let mut value = of_topic(&topic, &count);
    let paused = if count.paused_groups > 0 { ask.scope.paused_groups(&topic).await? } else { Vec::new() };
    value["groups_paused"] = paused.iter().map(paused_group).collect();
    value["policy"] = policy(&ask.scope.policy(&topic).await?);
    Ok(json(StatusCode::OK, &value))
}

pub(super) async fn delete(ask: Ask) -> Answer {
    let topic = ask.topic()?;
    match ask.scope.delete(&topic).await? {
        TopicDeletion::Deleted => Ok(nothing()),
        TopicDeletion::Unknown => Err(Problem::new(Kind::NoTopic, format!("no topic {topic}"))),
        TopicDeletion::Kept(shards) => {
            let why = shards.first().map(|(shard, why)| format!("shard {shard} has {why} of the topic"));
            Err(Problem::outcome(Kind::Conflict, value!({ "outcome": "kept", "reason": why })))
        }
    }
}

pub(super) async fn histogram(ask: Ask) -> Answer {
    let (topic, range) = (ask.topic()?, range(&ask.query)?);
    let width = ask.query.get::<HumanDuration>("width")?.map_or(HOUR, |width| *width);
    let (seconds, nanos) = (width.as_secs(), width.subsec_nanos());
    if !(60..=3600).contains(&seconds) || 3600 % seconds > 0 || nanos > 0 {
        return Err(Problem::invalid("width", "must divide an hour, from 1m to 1h"));
    }
    let group = ask.query.get::<Group>("group")?;
    let slots = ask.scope.histogram(&topic, group.as_ref(), range, width).await?;
    let value = |slot: &Slot| {
        let mut value = value!({ "count": slot.count });
        add_time(&mut value, "from", Some(slot.start));
        value
    };
    Ok(json(StatusCode::OK, &slots.iter().map(value).collect::<Value>()))
}

pub(super) async fn pause(ask: Ask) -> Answer {
    let group = ask.query.get::<Group>("group")?;
    ask.scope.pause(&ask.topic()?, group.as_ref()).await?;
    Ok(counted((nothing(), 0), group.map(|group| value!({ "group": group }))))
}

pub(super) async fn resume(ask: Ask) -> Answer {
    let group = ask.query.get::<Group>("group")?;
    ask.scope.resume(&ask.topic()?, group.as_ref()).await?;
    Ok(counted((nothing(), 0), group.map(|group| value!({ "group": group }))))
}

pub(super) async fn set_rate(ask: Ask) -> Answer {
    let (topic, scope) = (ask.topic()?, ask.scope.clone());
    let Rate { rate } = ask.json().await?;
    if rate.is_some_and(|rate| !RATES.contains(&rate)) {
        return Err(Problem::invalid("rate", "must be 0.00001 to 1000000000 messages per second, or null"));
    }
    scope.set_rate(&topic, rate).await?;
    Ok(counted((nothing(), 0), Some(value!({ "rate": rate }))))
}
