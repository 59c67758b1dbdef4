//! Operations: beginning, inspecting and aborting.

mod new;

use super::answer::{Answer, acted, counted, json};
use super::message::Payload;
use crate::actions::{Acted, COUNT};
use crate::input::Ask;
use crate::operations::{Estimate, Operation, Order};
use crate::problem::{Kind, Problem};
use axum::http::{HeaderValue, StatusCode, header};
use new::NewOperation;
use serde_json::{Value, json as value};

pub(super) async fn begin(ask: Ask) -> Answer {
    let (by, scope) = (ask.caller.name.clone(), ask.scope.clone());
    let asked = ask.json::<NewOperation>().await?;
    let is_dry = asked.dry_run;
    let order = asked.order()?;
    let stored = scope.stored_order(order.clone())?;
    let estimate = scope.estimate(&stored).await?;
    if is_dry {
        let response = json(StatusCode::OK, &matching(&order, &estimate));
        let with = value!({ "action": order.shown_action(), "filter": order.shown_filter() });
        return Ok(acted(response, Acted { action: Some(COUNT), messages: 0, with: Some(with) }));
    }
    let Some(operation) = scope.begin(stored, by, &estimate).await? else {
        let why = "wait for the end of an operation, or abort one: see /v1/operations";
        return Err(Problem::new(Kind::Busy, why));
    };
    let shown = operation.shown();
    let details = value!({ "id": operation.id, "action": shown["action"], "filter": shown["filter"] });
    let mut response = json(StatusCode::ACCEPTED, &shown);
    let place = HeaderValue::from_str(&format!("/v1/operations/{}", operation.id)).expect("an id is hex");
    response.headers_mut().insert(header::LOCATION, place);
    // What it changes is counted by the operation itself.
    Ok(counted((response, 0), Some(details)))
}

pub(super) async fn list(ask: Ask) -> Answer {
    let all: Vec<Value> = ask.scope.operations().await?.iter().map(Operation::shown).collect();
    Ok(json(StatusCode::OK, &value!({ "operations": all })))
}

pub(super) async fn get(ask: Ask) -> Answer {
    let id = ask.operation()?;
    let operation = ask.scope.operation(&id).await?.ok_or_else(|| unknown(&id))?;
    Ok(json(StatusCode::OK, &operation.shown()))
}

pub(super) async fn abort(ask: Ask) -> Answer {
    let (id, by) = (ask.operation()?, ask.caller.name.as_deref());
    let operation = ask.scope.abort(&id, by).await?.ok_or_else(|| unknown(&id))?;
    let status = if operation.phase.is_over() { StatusCode::OK } else { StatusCode::ACCEPTED };
    Ok(json(status, &operation.shown()))
}

fn matching(order: &Order, estimate: &Estimate) -> Value {
    let sample: Vec<Value> = estimate.sample.iter().map(|listed| Payload::None.shown(listed)).collect();
    value!({
        "action": order.shown_action(), "filter": order.shown_filter(), "dry_run": true,
        "count": estimate.count, "exact": estimate.is_exact, "sample": sample,
    })
}

fn unknown(id: &str) -> Problem {
    Problem::new(Kind::NoOperation, format!("no operation {id}; ended operations are kept for seven days"))
}
