//! Pages of messages: of a topic in one state, and of a group; or of those of a group, with a header or a reason, found by walking.

use super::answer::{Answer, json};
use super::message::Payload;
use crate::input::{Ask, Query};
use crate::problem::{Kind, Problem};
use crate::state::{Paged, Scope};
use axum::http::StatusCode;
use delayq::admin::{ListState, Listed, TimeRange};
use delayq::{Group, Members, State, UnixMillis};
use delayq_service::when::moment;
use serde_json::{Value, json as value};
use std::time::{Duration, Instant};

const DEFAULT_LIMIT: usize = 50;
const MAX_LIMIT: usize = 500;
/// Of a walk.
const MAX_LOOKED_AT: usize = 20_000;
const MAX_WALK: Duration = Duration::from_secs(2);

/// What a walk looks for.
#[derive(Default)]
struct Sought {
    /// The group of a dead letter: the index of a group has none.
    group: Option<Group>,
    /// The state and the range of a member of a group, whose index has all that are pending.
    among: Option<(State, TimeRange)>,
    /// Name and value; case does not matter in the name.
    header: Option<(String, String)>,
    /// A part of the reason of the last failure.
    reason: Option<String>,
}

pub(super) async fn of_topic(ask: Ask) -> Answer {
    let (topic, state, range) = (ask.topic()?, state(&ask.query)?, range(&ask.query)?);
    let (group, sought) = (ask.query.get::<Group>("group")?, Sought::of(&ask.query)?);
    let (paged, sought) = match (group, state) {
        (Some(group), ListState::Delayed | ListState::Ready | ListState::Leased) => {
            let among = Some((listed_state(state), range));
            (Paged::Group(Members { group, topic: Some(topic) }), Sought { among, ..sought })
        }
        (group, state) => (Paged::Topic(topic, state, range), Sought { group, ..sought }),
    };
    page(ask, &paged, sought).await
}

pub(super) async fn of_group(ask: Ask) -> Answer {
    let (paged, sought) = (Paged::Group(ask.members()?), Sought::of(&ask.query)?);
    page(ask, &paged, sought).await
}

async fn page(ask: Ask, paged: &Paged, sought: Sought) -> Answer {
    let (payload, limit) = (Payload::of(&ask)?, limit(&ask.query, DEFAULT_LIMIT)?);
    let after = ask.query.text("after");
    let (messages, next, looked_at) = match sought.is_any() {
        true => walk(&ask.scope, (paged, after), &sought, limit).await?,
        false => {
            let (messages, next) = ask.scope.page(paged, after, limit).await?;
            let looked_at = messages.len();
            (messages, next, looked_at)
        }
    };
    let messages: Vec<Value> = messages.iter().map(|listed| payload.shown_in(&ask.scope, listed)).collect();
    Ok(json(StatusCode::OK, &value!({ "messages": messages, "next": next, "looked_at": looked_at })))
}

/// Pages until `limit` messages are found, or the budget is used up: then `next` goes on. The last page is answered whole.
async fn walk(
    scope: &Scope,
    (paged, after): (&Paged, Option<&str>),
    sought: &Sought,
    limit: usize,
) -> Result<(Vec<Listed>, Option<String>, usize), Problem> {
    let (mut found, mut looked_at, began) = (Vec::new(), 0, Instant::now());
    let mut after = after.map(str::to_owned);
    let most = if sought.is_rare() { MAX_LIMIT } else { limit };
    loop {
        let (page, next) = match scope.page(paged, after.as_deref(), most).await {
            Err(problem) if problem.kind() == Kind::OverQuota && looked_at > 0 => {
                return Ok((found, after, looked_at));
            }
            page => page?,
        };
        looked_at += page.len();
        found.extend(page.into_iter().filter(|listed| sought.is_in(listed)));
        let is_over = found.len() >= limit || looked_at >= MAX_LOOKED_AT || began.elapsed() >= MAX_WALK;
        if next.is_none() || is_over {
            return Ok((found, next, looked_at));
        }
        after = next;
    }
}

// === impl Sought ===

impl Sought {
    fn of(query: &Query) -> Result<Self, Problem> {
        let header = query.text("header").map(|text| {
            let (name, value) = text
                .split_once(':')
                .filter(|(name, _)| !name.trim().is_empty())
                .ok_or_else(|| Problem::invalid("header", "write name:value"))?;
            Ok::<_, Problem>((name.trim().to_owned(), value.trim().to_owned()))
        });
        let (header, reason) = (header.transpose()?, query.text("reason").map(str::to_owned));
        Ok(Self { header, reason, ..Self::default() })
    }

    fn is_any(&self) -> bool {
        self.is_rare() || self.among.is_some()
    }

    /// Most members of a group are in the state that somebody asks for.
    fn is_rare(&self) -> bool {
        self.group.is_some() || self.header.is_some() || self.reason.is_some()
    }

    fn is_in(&self, listed: &Listed) -> bool {
        let Ok(envelope) = &listed.envelope else { return false };
        let has = |(name, value): &(String, String)| {
            envelope.headers.iter().any(|(known, has)| known.eq_ignore_ascii_case(name) && has == value)
        };
        let says = |text: &String| envelope.reason.as_ref().is_some_and(|reason| reason.contains(text));
        let time = if envelope.state == State::Leased { envelope.at } else { envelope.due };
        let is_among = |(state, range): (State, TimeRange)| {
            envelope.state == state && (range.from..=range.to).contains(&time)
        };
        self.among.is_none_or(is_among)
            && self.group.as_ref().is_none_or(|group| listed.group.as_ref() == Some(group))
            && self.header.as_ref().is_none_or(has)
            && self.reason.as_ref().is_none_or(says)
    }
}

pub(super) fn limit(query: &Query, default: usize) -> Result<usize, Problem> {
    match query.get("limit")? {
        Some(limit) if !(1..=MAX_LIMIT).contains(&limit) => {
            Err(Problem::invalid("limit", format_args!("write 1 to {MAX_LIMIT}")))
        }
        limit => Ok(limit.unwrap_or(default)),
    }
}

/// Both ends included.
pub(super) fn range(query: &Query) -> Result<TimeRange, Problem> {
    let end = |name: &str, default: UnixMillis| match query.text(name) {
        Some(text) => moment(text).map_err(|why| Problem::invalid(name, why)),
        None => Ok(default),
    };
    Ok(TimeRange { from: end("from", TimeRange::ALL.from)?, to: end("to", TimeRange::ALL.to)? })
}

const fn listed_state(state: ListState) -> State {
    match state {
        ListState::Delayed => State::Delayed,
        ListState::Ready => State::Ready,
        ListState::Leased => State::Leased,
        ListState::Dead { .. } => State::Dead,
    }
}

fn state(query: &Query) -> Result<ListState, Problem> {
    let newest_first = match query.text("order") {
        None | Some("asc") => false,
        Some("desc") => true,
        Some(_) => return Err(Problem::invalid("order", "must be asc or desc")),
    };
    let state = match query.text("state") {
        None | Some("delayed") => ListState::Delayed,
        Some("ready") => ListState::Ready,
        Some("leased") => ListState::Leased,
        Some("dead") => return Ok(ListState::Dead { newest_first }),
        Some(_) => return Err(Problem::invalid("state", "must be delayed, ready, leased or dead")),
    };
    match newest_first {
        true => Err(Problem::invalid("order", "desc is only for dead letters")),
        false => Ok(state),
    }
}
