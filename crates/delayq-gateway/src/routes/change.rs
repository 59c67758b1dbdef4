//! Changing one message: cancel, reschedule, replay, bury.

use super::answer::{Answer, counted, json};
use crate::input::{Ask, when};
use crate::problem::{Kind, Problem};
use crate::routes::message::unknown;
use crate::state::Scope;
use axum::http::StatusCode;
use delayq::admin::{Acted, Action, Tag};
use delayq::{CancelOutcome, Due, Reschedule, RescheduleOutcome, Shift, Target, Topic, UnixMillis};
use delayq_service::config::HumanDuration;
use delayq_service::json::{cancel as json_of_cancel, reschedule as json_of_reschedule};
use serde::Deserialize;
use serde_json::{Value, json as value};
use std::time::Duration;

const MAX_REASON: usize = 500;

pub(super) type Changed = Result<(StatusCode, Value), Problem>;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NewDue {
    #[serde(default)]
    due: Option<Value>,
    #[serde(default)]
    by: Option<String>,
    #[serde(default)]
    expected_due: Option<Value>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NewLife {
    #[serde(default)]
    pub(super) delay: Option<HumanDuration>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Death {
    reason: String,
}

// === impl NewLife ===

impl NewLife {
    pub(super) fn delay(&self) -> Duration {
        self.delay.map_or(Duration::ZERO, |delay| *delay)
    }
}

// === impl NewDue ===

impl NewDue {
    /// For a request with a tag.
    fn action(&self, past_ok: bool) -> Result<Action, Problem> {
        match (&self.due, &self.by, &self.expected_due) {
            (Some(due), None, None) => Ok(Action::Reschedule(time("due", due, past_ok)?)),
            (None, Some(by), None) => Ok(Action::Shift(shift("by", by)?)),
            (.., Some(_)) => {
                Err(Problem::invalid("expected_due", "If-Match says what is expected: leave it out"))
            }
            _ => Err(Problem::invalid("due", "set either due or by")),
        }
    }

    pub(super) fn new(due: Option<Value>, by: Option<String>, expected_due: Option<Value>) -> Self {
        Self { due, by, expected_due }
    }

    pub(super) fn change(&self, past_ok: bool) -> Result<Reschedule, Problem> {
        let expected = self.expected_due.as_ref().map(|time| moment("expected_due", time)).transpose()?;
        match (&self.due, &self.by, expected) {
            (Some(due), None, expected) => {
                let due = time("due", due, past_ok)?;
                Ok(expected.map_or(Reschedule::To(due), |expected| Reschedule::ToIfDue(due, expected)))
            }
            (None, Some(by), Some(expected)) => Ok(Reschedule::By(shift("by", by)?, expected)),
            (None, Some(_), None) => Err(Problem::invalid(
                "expected_due",
                "`by` needs expected_due: otherwise a repeat would move the message twice",
            )),
            _ => Err(Problem::invalid("due", "set either due, or by and expected_due")),
        }
    }
}

pub(super) async fn cancel(ask: Ask) -> Answer {
    let (topic, target) = (ask.topic()?, ask.target()?);
    if let Some(tag) = ask.expected()? {
        return as_expected(&ask.scope, &topic, &target, tag, &Action::Cancel).await;
    }
    let outcome = ask.scope.cancel(&topic, &target).await?;
    let (status, value) = cancelled(&topic, &target, &outcome)?;
    Ok(counted((json(status, &value), 1), None))
}

pub(super) async fn reschedule(ask: Ask) -> Answer {
    let (topic, target, past_ok) = (ask.topic()?, ask.target()?, ask.past_ok()?);
    let (scope, expected) = (ask.scope.clone(), ask.expected()?);
    let new_due = ask.json::<NewDue>().await?;
    if let Some(tag) = expected {
        return as_expected(&scope, &topic, &target, tag, &new_due.action(past_ok)?).await;
    }
    let outcome = scope.reschedule(&topic, &target, new_due.change(past_ok)?).await?;
    let (status, value) = rescheduled(&topic, &target, &outcome)?;
    Ok(counted((json(status, &value), 1), None))
}

pub(super) async fn replay(ask: Ask) -> Answer {
    let (topic, target, expected) = (ask.topic()?, ask.target()?, ask.expected()?);
    let scope = ask.scope.clone();
    let life = ask.json_or_default::<NewLife>().await?;
    if let Some(tag) = expected {
        return as_expected(&scope, &topic, &target, tag, &Action::Replay(life.delay())).await;
    }
    let (status, value) = replayed(&scope, &topic, &target, &life).await?;
    Ok(counted((json(status, &value), 1), None))
}

pub(super) async fn bury(ask: Ask) -> Answer {
    let (topic, target, expected) = (ask.topic()?, ask.target()?, ask.expected()?);
    let scope = ask.scope.clone();
    let reason = reason("reason", &ask.json::<Death>().await?.reason)?;
    let (status, value) = buried(&scope, &topic, &target, expected, reason).await?;
    Ok(counted((json(status, &value), 1), None))
}

async fn as_expected(scope: &Scope, topic: &Topic, target: &Target, tag: Tag, action: &Action) -> Answer {
    let (status, value) = acted_on(scope, topic, target, tag, action).await?;
    Ok(counted((json(status, &value), 1), None))
}

/// Acts on the message while the tag is current.
pub(super) async fn acted_on(
    scope: &Scope,
    topic: &Topic,
    target: &Target,
    tag: Tag,
    action: &Action,
) -> Changed {
    let acted = scope.act_on(topic, target, tag, action).await?;
    match acted {
        Acted::Moved { due, ready } if !matches!(action, Action::Replay(_)) => {
            let moved = RescheduleOutcome::Moved { old: tag.due, due, ready };
            Ok((StatusCode::OK, json_of_reschedule(&target.id, &moved)))
        }
        acted => answer_of(topic, target, &acted),
    }
}

pub(super) async fn buried(
    scope: &Scope,
    topic: &Topic,
    target: &Target,
    expected: Option<Tag>,
    reason: String,
) -> Changed {
    match expected {
        Some(tag) => acted_on(scope, topic, target, tag, &Action::Bury(reason)).await,
        None => answer_of(topic, target, &scope.bury(topic, target, &reason).await?),
    }
}

fn answer_of(topic: &Topic, target: &Target, acted: &Acted) -> Changed {
    let word = acted.word();
    let mut answer = value!({ "id": target.id, "outcome": word });
    let kind = match acted {
        Acted::Cancelled | Acted::Buried | Acted::Moved { .. } => return Ok((StatusCode::OK, answer)),
        Acted::Leased => return Ok((StatusCode::ACCEPTED, answer)),
        Acted::Unknown => return Err(unknown(topic, target)),
        Acted::Changed(state, now) => {
            (answer["state"], answer["tag"]) = (state.word().into(), now.to_string().into());
            Kind::Changed
        }
        Acted::Kept(state) | Acted::Finished(state, _) => {
            answer["state"] = state.word().into();
            Kind::Conflict
        }
        Acted::Refused(why) | Acted::Failed(why) => {
            answer["reason"] = why.as_str().into();
            if word == "failed" { Kind::Fault } else { Kind::Invalid }
        }
    };
    Err(Problem::outcome(kind, answer))
}

pub(super) fn cancelled(topic: &Topic, target: &Target, outcome: &CancelOutcome) -> Changed {
    let value = json_of_cancel(&target.id, outcome);
    match outcome {
        CancelOutcome::Cancelled => Ok((StatusCode::OK, value)),
        CancelOutcome::Leased | CancelOutcome::Spooled => Ok((StatusCode::ACCEPTED, value)),
        CancelOutcome::Dead | CancelOutcome::Finished(..) => Err(Problem::outcome(Kind::Conflict, value)),
        CancelOutcome::Unknown => Err(unknown(topic, target)),
        CancelOutcome::Failed(_) => Err(Problem::outcome(Kind::Fault, value)),
    }
}

pub(super) fn rescheduled(topic: &Topic, target: &Target, outcome: &RescheduleOutcome) -> Changed {
    let value = json_of_reschedule(&target.id, outcome);
    match outcome {
        RescheduleOutcome::Moved { .. } => Ok((StatusCode::OK, value)),
        RescheduleOutcome::Spooled => Ok((StatusCode::ACCEPTED, value)),
        RescheduleOutcome::Changed(_) => Err(Problem::outcome(Kind::Changed, value)),
        RescheduleOutcome::Leased | RescheduleOutcome::Dead | RescheduleOutcome::Finished(..) => {
            Err(Problem::outcome(Kind::Conflict, value))
        }
        RescheduleOutcome::Unknown => Err(unknown(topic, target)),
        RescheduleOutcome::Refused(_) => Err(Problem::outcome(Kind::Invalid, value)),
        RescheduleOutcome::Failed(_) => Err(Problem::outcome(Kind::Fault, value)),
    }
}

pub(super) async fn replayed(scope: &Scope, topic: &Topic, target: &Target, life: &NewLife) -> Changed {
    let delay = life.delay();
    let replayed = scope.replay(topic, target, delay).await?;
    if replayed.replayed > 0 {
        let outcome = if delay.is_zero() { "ready" } else { "delayed" };
        return Ok((StatusCode::OK, value!({ "id": target.id, "outcome": outcome })));
    }
    if let Some(why) = replayed.kept.keys().next() {
        let kept = value!({ "id": target.id, "outcome": "dead", "reason": why });
        return Err(Problem::outcome(Kind::Conflict, kept));
    }
    let Some(listed) = scope.get(topic, target).await? else { return Err(unknown(topic, target)) };
    let state = listed.envelope?.state.word();
    Err(Problem::outcome(Kind::Conflict, value!({ "id": target.id, "outcome": "not dead", "state": state })))
}

/// Of an operation, or of a dead letter.
pub(super) fn reason(pointer: &str, text: &str) -> Result<String, Problem> {
    let reason = text.trim();
    if reason.is_empty() || reason.len() > MAX_REASON || reason.chars().any(char::is_control) {
        let why = format!("a reason is required, of 1 to {MAX_REASON} bytes without control characters");
        return Err(Problem::invalid(pointer, why));
    }
    Ok(reason.to_owned())
}

/// A string, or milliseconds.
fn time(pointer: &str, text: &Value, past_ok: bool) -> Result<Due, Problem> {
    let text = text.as_str().map_or_else(|| text.to_string(), str::to_owned);
    when(pointer, &text)?.due(past_ok).map_err(|why| Problem::invalid(pointer, why))
}

fn moment(pointer: &str, text: &Value) -> Result<UnixMillis, Problem> {
    match time(pointer, text, true)? {
        Due::At(at) => Ok(at),
        Due::After(_) => Err(Problem::invalid(pointer, "must be an absolute time")),
    }
}

/// `10m` and `-90s`.
pub(super) fn shift(pointer: &str, text: &str) -> Result<Shift, Problem> {
    let span = |text: &str| text.parse::<HumanDuration>().map(|span| *span);
    let shift = match text.strip_prefix('-') {
        Some(earlier) => span(earlier).map(Shift::Earlier),
        None => span(text.strip_prefix('+').unwrap_or(text)).map(Shift::Later),
    };
    let shift = shift.map_err(|why| Problem::invalid(pointer, why))?;
    match shift.millis() {
        0 => Err(Problem::invalid(pointer, "a shift by nothing")),
        _ => Ok(shift),
    }
}
