//! Pages of messages: of a topic in one state, and of a group.

use super::answer::{Answer, json};
use super::message::Payload;
use crate::input::{Ask, Query};
use crate::problem::Problem;
use crate::state::Paged;
use axum::http::StatusCode;
use delayq::UnixMillis;
use delayq::admin::{ListState, TimeRange};
use delayq_service::when::moment;
use serde_json::{Value, json as value};

const DEFAULT_LIMIT: usize = 50;
const MAX_LIMIT: usize = 500;

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
    let (messages, next) = ask.scope.page(paged, ask.query.text("after"), limit).await?;
    let messages: Vec<Value> = messages.iter().map(|listed| payload.shown(listed)).collect();
    Ok(json(StatusCode::OK, &value!({ "messages": messages, "next": next })))
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
