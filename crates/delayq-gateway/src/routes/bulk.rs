//! Routes for many messages, each with its names in the body.

use super::answer::{Answer, ItemAnswer, counted};
use super::change::{NewDue, NewLife, acted_on, buried, cancelled, reason, replayed, rescheduled};
use super::message::{Payload, found};
use crate::input::{Ask, Items};
use crate::problem::Problem;
use crate::sessions::Caller;
use crate::state::Scope;
use delayq::admin::{Action, Tag};
use delayq::{Reschedule, Target, Topic};
use delayq_service::config::HumanDuration;
use futures_util::{StreamExt as _, stream};
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;

const AT_ONCE: usize = 16;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ToCancel {
    topic: Topic,
    id: String,
    group: Option<String>,
    tag: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ToReschedule {
    topic: Topic,
    id: String,
    group: Option<String>,
    due: Option<Value>,
    by: Option<String>,
    expected_due: Option<Value>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ToReplay {
    topic: Topic,
    id: String,
    group: Option<String>,
    tag: Option<String>,
    delay: Option<HumanDuration>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ToBury {
    topic: Topic,
    id: String,
    group: Option<String>,
    tag: Option<String>,
    reason: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ToGet {
    topic: Topic,
    id: String,
    group: Option<String>,
    payload: Option<String>,
}

/// The changes of each topic, with the places in the request.
type ByTopic<T> = BTreeMap<Topic, Vec<(usize, T)>>;

pub(super) async fn cancel(ask: Ask) -> Answer {
    let scope = ask.scope.clone();
    let items = ask.items().await?;
    let named = |item: ToCancel| -> Result<_, Problem> {
        Ok((item.topic, (target(&item.id, item.group.as_deref())?, tag(item.tag.as_deref())?)))
    };
    let (topics, mut answers) = by_topic(&items, named);
    let names = json!({ "topics": topics.keys().collect::<Vec<_>>() });
    for (topic, targets) in in_steps(&scope, topics) {
        let mut seen = Vec::new();
        let unseen = targets.into_iter().filter_map(|(place, (target, tag))| match tag {
            Some(tag) => {
                seen.push((place, target, tag));
                None
            }
            None => Some((place, target)),
        });
        let (places, targets): (Vec<usize>, Vec<Target>) = unseen.unzip();
        for (place, answer) in cancel_seen(&scope, &topic, seen).await {
            answers[place] = Some(answer);
        }
        let outcomes = scope.cancel_many(&topic, &targets).await;
        for ((place, target), outcome) in places.into_iter().zip(&targets).zip(outcomes) {
            answers[place] = Some(changed(outcome.map(|outcome| cancelled(&topic, target, &outcome))));
        }
    }
    Ok(counted(items.answer(answers.into_iter().map(whole)), Some(names)))
}

/// Cancels messages, each while its tag is current.
async fn cancel_seen(
    scope: &Scope,
    topic: &Topic,
    seen: Vec<(usize, Target, Tag)>,
) -> Vec<(usize, ItemAnswer)> {
    let turn = &scope.step(seen.len()).await;
    let cancel = |(place, target, tag): (usize, Target, Tag)| async move {
        let cancelled = match turn {
            Ok(()) => acted_on(scope, topic, &target, tag, &Action::Cancel).await,
            Err(problem) => Err(problem.clone()),
        };
        (place, cancelled.map(|(_, value)| value))
    };
    stream::iter(seen.into_iter().map(cancel)).buffered(AT_ONCE).collect().await
}

pub(super) async fn reschedule(ask: Ask) -> Answer {
    let (past_ok, scope) = (ask.past_ok()?, ask.scope.clone());
    let items = ask.items().await?;
    let named = |item: ToReschedule| -> Result<_, Problem> {
        let change = NewDue::new(item.due, item.by, item.expected_due).change(past_ok)?;
        Ok((item.topic, (target(&item.id, item.group.as_deref())?, change)))
    };
    let (topics, mut answers) = by_topic(&items, named);
    let names = json!({ "topics": topics.keys().collect::<Vec<_>>() });
    for (topic, changes) in in_steps(&scope, topics) {
        let (places, changes): (Vec<usize>, Vec<(Target, Reschedule)>) = changes.into_iter().unzip();
        let outcomes = scope.reschedule_many(&topic, &changes).await;
        for ((place, (target, _)), outcome) in places.into_iter().zip(&changes).zip(outcomes) {
            answers[place] = Some(changed(outcome.map(|outcome| rescheduled(&topic, target, &outcome))));
        }
    }
    Ok(counted(items.answer(answers.into_iter().map(whole)), Some(names)))
}

pub(super) async fn replay(ask: Ask) -> Answer {
    let scope = ask.scope.clone();
    let items = ask.items().await?;
    let answers = each(&scope, &items, |item| replay_one(&scope, item)).await;
    Ok(counted(items.answer(answers.into_iter()), None))
}

async fn replay_one(scope: &Scope, item: ToReplay) -> ItemAnswer {
    let (target, life) = (target(&item.id, item.group.as_deref())?, NewLife { delay: item.delay });
    let changed = match tag(item.tag.as_deref())? {
        Some(tag) => acted_on(scope, &item.topic, &target, tag, &Action::Replay(life.delay())).await,
        None => replayed(scope, &item.topic, &target, &life).await,
    };
    changed.map(|(_, value)| value)
}

pub(super) async fn bury(ask: Ask) -> Answer {
    let scope = ask.scope.clone();
    let items = ask.items().await?;
    let answers = each(&scope, &items, |item| bury_one(&scope, item)).await;
    Ok(counted(items.answer(answers.into_iter()), None))
}

async fn bury_one(scope: &Scope, item: ToBury) -> ItemAnswer {
    let target = target(&item.id, item.group.as_deref())?;
    let (tag, reason) = (tag(item.tag.as_deref())?, reason("reason", &item.reason)?);
    buried(scope, &item.topic, &target, tag, reason).await.map(|(_, value)| value)
}

pub(super) async fn get(ask: Ask) -> Answer {
    let (scope, caller) = (ask.scope.clone(), ask.caller.clone());
    let items = ask.items().await?;
    let answers = each(&scope, &items, |item| get_one(&scope, &caller, item)).await;
    Ok(items.answer(answers.into_iter()).0)
}

async fn get_one(scope: &Scope, caller: &Caller, item: ToGet) -> ItemAnswer {
    let payload = item.payload.as_deref().map(str::parse::<Payload>).transpose();
    let payload =
        payload.map_err(|why| Problem::invalid("payload", why))?.unwrap_or_default().for_caller(caller)?;
    let target = target(&item.id, item.group.as_deref())?;
    Ok(payload.shown_in(scope, &found(scope, &item.topic, &target).await?))
}

/// The answers for items that need a call each.
async fn each<I: serde::de::DeserializeOwned, F: Future<Output = ItemAnswer>>(
    scope: &Scope,
    items: &Items,
    one: impl Fn(I) -> F,
) -> Vec<ItemAnswer> {
    let (mut answers, one) = (Vec::new(), &one);
    for step in scope.steps(items.parse()) {
        let turn = scope.step(step.len()).await;
        let step = step.into_iter().map(|item| turn.clone().and(item));
        let calls = step.map(|item| async move { one(item?).await });
        answers.extend(stream::iter(calls).buffered(AT_ONCE).collect::<Vec<_>>().await);
    }
    answers
}

fn target(id: &str, group: Option<&str>) -> Result<Target, Problem> {
    let id = id.parse().map_err(|why| Problem::invalid("id", why))?;
    let group = group.map(str::parse).transpose().map_err(|why| Problem::invalid("group", why))?;
    Ok(Target { id, group })
}

fn tag(text: Option<&str>) -> Result<Option<Tag>, Problem> {
    text.map(str::parse).transpose().map_err(|why| Problem::invalid("tag", why))
}

/// The sound items by topic; and a place for each answer, where the faulty ones have theirs.
fn by_topic<I: serde::de::DeserializeOwned, T>(
    items: &Items,
    named: impl Fn(I) -> Result<(Topic, T), Problem>,
) -> (ByTopic<T>, Vec<Option<ItemAnswer>>) {
    let (mut topics, mut answers) = (ByTopic::new(), Vec::new());
    for (place, item) in items.parse::<I>().into_iter().enumerate() {
        answers.push(match item.and_then(&named) {
            Ok((topic, item)) => {
                topics.entry(topic).or_default().push((place, item));
                None
            }
            Err(problem) => Some(Err(problem)),
        });
    }
    (topics, answers)
}

/// The items of a topic in calls of a step each.
fn in_steps<T>(scope: &Scope, topics: ByTopic<T>) -> Vec<(Topic, Vec<(usize, T)>)> {
    let steps = |(topic, items): (Topic, Vec<(usize, T)>)| {
        scope.steps(items).into_iter().map(move |step| (topic.clone(), step)).collect::<Vec<_>>()
    };
    topics.into_iter().flat_map(steps).collect()
}

fn changed<S>(outcome: Result<Result<(S, Value), Problem>, Problem>) -> ItemAnswer {
    outcome?.map(|(_, value)| value)
}

fn whole(answer: Option<ItemAnswer>) -> ItemAnswer {
    answer.expect("every item is faulty or sent")
}
