//! Changing a whole group.

use super::answer::{Answer, counted, json};
use super::change::shift as shift_of;
use crate::input::Ask;
use crate::problem::{Kind, Problem};
use axum::http::StatusCode;
use delayq::GroupTally;
use serde::Deserialize;
use serde_json::json as value;

const MAX_TOKEN: usize = 128;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ShiftOf {
    by: String,
    token: String,
}

pub(super) async fn cancel(ask: Ask) -> Answer {
    let members = ask.members()?;
    let tally = ask.scope.cancel_group(&members).await?;
    let (cancelled, passed) = (tally.changed, tally.passed);
    let (status, outcome) = of(&tally, "cancelled");
    let answer =
        json(status, &value!({ "outcome": outcome, "cancelled": cancelled, "leased_or_failed": passed }));
    Ok(counted((answer, cancelled), None))
}

pub(super) async fn shift(ask: Ask) -> Answer {
    let (members, scope) = (ask.members()?, ask.scope.clone());
    let ShiftOf { by, token } = ask.json().await?;
    if token.is_empty() || token.len() > MAX_TOKEN || token.chars().any(char::is_control) {
        return Err(Problem::invalid("token", "must be 1 to 128 bytes without control characters"));
    }
    let tally = scope.shift_group(&members, shift_of("by", &by)?, &token).await?;
    let (moved, passed) = (tally.changed, tally.passed);
    if tally.busy {
        let why = "another shift of the group is unfinished: finish it with its token first";
        return Err(Problem::outcome(Kind::Conflict, value!({ "outcome": "busy", "reason": why })));
    }
    let (status, outcome) = of(&tally, "moved");
    let answer = json(status, &value!({ "outcome": outcome, "moved": moved, "passed": passed }));
    Ok(counted((answer, moved), Some(value!({ "by": by, "token": token }))))
}

/// The status and the word of a change: `done`, unless it was spooled.
fn of(tally: &GroupTally, done: &'static str) -> (StatusCode, &'static str) {
    if tally.spooled { (StatusCode::ACCEPTED, "spooled") } else { (StatusCode::OK, done) }
}
