//! The state of the deployment: the verdicts of `delayq doctor`, the shards, and the timers.

use super::answer::{Answer, json};
use crate::looks::{Looks, TimedLook};
use crate::problem::Problem;
use crate::processes::Processes;
use axum::Extension;
use axum::http::StatusCode;
use axum::response::Response;
use delayq_look::{Check, Limits, Shard, Shards, judge, owners, timers, worst};
use serde_json::{Value, json as value};

pub(super) async fn status(Extension(looks): Extension<Looks>) -> Answer {
    let taken = looks.latest().await?;
    let checks = judge(&taken.look, &Limits::default());
    let shards = taken.look.shards.as_ref().ok();
    Ok(answer(
        &taken,
        value!({
            "verdict": worst(&checks), "checks": checks.iter().map(shown).collect::<Value>(), "namespace": taken.look.part.namespace(),
            "shards": shards.map_or(0, |shards| shards.seen.len()),
            "overdue_ms": shards.map(|shards| shards.overdue().as_millis() as u64),
        }),
    ))
}

/// With the cause and the values, by which the page has the finding in the reader's language.
fn shown(check: &Check) -> Value {
    let mut shown = value!(check);
    if !check.cause.is_empty() {
        shown["cause"] = value!(check.cause);
        shown["values"] = value!(check.values);
    }
    shown
}

pub(super) async fn shards(Extension(looks): Extension<Looks>) -> Answer {
    let taken = looks.latest().await?;
    let shards: Value = answering(&taken)?.seen.iter().map(Shard::json).collect();
    Ok(answer(&taken, value!({ "shards": shards })))
}

pub(super) async fn list_timers(Extension(looks): Extension<Looks>) -> Answer {
    let taken = looks.latest().await?;
    let owners = owners(&answering(&taken)?.seen);
    Ok(answer(&taken, timers(&taken.look, &owners)))
}

pub(super) async fn list_processes(Extension(processes): Extension<Processes>) -> Answer {
    Ok(json(StatusCode::OK, &processes.shown().await))
}

fn answering(taken: &TimedLook) -> Result<&Shards, Problem> {
    taken.look.shards.as_ref().map_err(|error| Problem::from(error.clone()))
}

/// Adds the missing parts, and the age of the look.
fn answer(taken: &TimedLook, mut value: Value) -> Response {
    value["missing"] = value!(taken.look.missing());
    value["age_ms"] = value!(taken.age().as_millis() as u64);
    json(StatusCode::OK, &value)
}
