//! Making delayed messages ready now.

use super::answer::{Answer, counted, json};
use super::listing::range;
use crate::input::{Ask, Query};
use crate::problem::Problem;
use crate::state::Scope;
use axum::http::StatusCode;
use delayq::admin::{Promotable, PromoteOptions};
use serde_json::json as value;

/// Maximum messages of a request: it ends within seconds.
const MAX: u64 = 10_000;

pub(super) async fn of_topic(ask: Ask) -> Answer {
    let (topic, options) = (ask.topic()?, options(&ask.query)?);
    promote(&ask.scope, &Promotable::from(&topic), options).await
}

pub(super) async fn of_group(ask: Ask) -> Answer {
    let (members, options) = (ask.members()?, options(&ask.query)?);
    promote(&ask.scope, &Promotable::from(&members), options).await
}

fn options(query: &Query) -> Result<PromoteOptions, Problem> {
    let max = match query.get("max")? {
        Some(max) if !(1..=MAX).contains(&max) => {
            return Err(Problem::invalid("max", format_args!("write 1 to {MAX}")));
        }
        max => max.unwrap_or(MAX),
    };
    Ok(PromoteOptions::default().due(range(query)?).max_messages(max))
}

async fn promote(scope: &Scope, which: &Promotable, options: PromoteOptions) -> Answer {
    let promoted = scope.promote(which, &options).await?;
    let answer = json(StatusCode::OK, &value!({ "promoted": promoted.promoted, "kept": promoted.kept }));
    Ok(counted((answer, promoted.promoted), None))
}
