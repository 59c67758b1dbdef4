//! Pages of messages: of a topic in one state, and of a group; or of those that have a header or a reason, found by walking.

use super::answer::{Answer, json};
use super::message::Payload;
use crate::input::{Ask, Query};
use crate::problem::{Kind, Problem};
use crate::state::{Paged, Scope};
use axum::http::StatusCode;
use delayq::UnixMillis;
use delayq::admin::{ListState, Listed, TimeRange};
use delayq_service::when::moment;
use serde_json::{Value, json as value};
use std::time::{Duration, Instant};

const DEFAULT_LIMIT: usize = 50;
const MAX_LIMIT: usize = 500;
/// Of a walk.
const MAX_LOOKED_AT: usize = 20_000;
const MAX_WALK: Duration = Duration::from_secs(2);

/// What a walk looks for.
struct Sought {
    /// Name and value; case does not matter in the name.
    header: Option<(String, String)>,
    /// A part of the reason of the last failure.
    reason: Option<String>,
}

pub(super) async fn of_topic(ask: Ask) -> Answer {
    let paged = Paged::Topic(ask.topic()?, state(&ask.query)?, range(&ask.query)?);
    page(ask, &paged).await
}

pub(super) async fn of_group(ask: Ask) -> Answer {
    let paged = Paged::Group(ask.members()?);
    page(ask, &paged).await
}

async fn page(ask: Ask, paged: &Paged) -> Answer {
    let (payload, limit) = (Payload::of(&ask)?, limit(&ask.query, DEFAULT_LIMIT)?);
    let (after, sought) = (ask.query.text("after"), Sought::of(&ask.query)?);
    let (messages, next, looked_at) = match sought {
        Some(sought) => walk(&ask.scope, (paged, after), &sought, limit).await?,
        None => {
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
    loop {
        let (page, next) = match scope.page(paged, after.as_deref(), MAX_LIMIT).await {
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
    fn of(query: &Query) -> Result<Option<Self>, Problem> {
        let header = query.text("header").map(|text| {
            let (name, value) = text
                .split_once(':')
                .filter(|(name, _)| !name.trim().is_empty())
                .ok_or_else(|| Problem::invalid("header", "write name:value"))?;
            Ok::<_, Problem>((name.trim().to_owned(), value.trim().to_owned()))
        });
        let (header, reason) = (header.transpose()?, query.text("reason").map(str::to_owned));
        Ok((header.is_some() || reason.is_some()).then_some(Self { header, reason }))
    }

    fn is_in(&self, listed: &Listed) -> bool {
        let Ok(envelope) = &listed.envelope else { return false };
        let has = |(name, value): &(String, String)| {
            envelope.headers.iter().any(|(known, has)| known.eq_ignore_ascii_case(name) && has == value)
        };
        let says = |text: &String| envelope.reason.as_ref().is_some_and(|reason| reason.contains(text));
        self.header.as_ref().is_none_or(has) && self.reason.as_ref().is_none_or(says)
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
