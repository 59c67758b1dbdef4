//! What became of a put, a cancel, a reschedule and a settlement.

use super::add_time;
use crate::when::time;
use delayq::{CancelOutcome, MessageId, PutOutcome, Reference, RescheduleOutcome, Settled};
use serde_json::{Value, json};

/// The word of what became of a put.
#[must_use]
pub const fn put_word(outcome: &PutOutcome) -> &'static str {
    match outcome {
        PutOutcome::Stored(_) => "stored",
        PutOutcome::Ready(_) => "ready",
        PutOutcome::Again { .. } => "again",
        PutOutcome::Changed(..) => "changed",
        PutOutcome::Unknown => "unknown",
        PutOutcome::Exists(..) => "exists",
        PutOutcome::Conflict(..) | PutOutcome::Newer | PutOutcome::Malformed => "conflict",
        PutOutcome::Leased => "leased",
        PutOutcome::Stale => "stale",
        PutOutcome::Spooled => "spooled",
        PutOutcome::Refused(_) => "refused",
    }
}

/// What became of a put.
#[must_use]
pub fn put(reference: &Reference, outcome: &PutOutcome) -> Value {
    let mut value = json!({ "outcome": put_word(outcome), "id": reference.id, "shard": reference.shard });
    match outcome {
        PutOutcome::Stored(due) | PutOutcome::Ready(due) => add_time(&mut value, "due", Some(*due)),
        PutOutcome::Again { state, old, due } => {
            value["state"] = state.word().into();
            add_time(&mut value, "due", Some(*due));
            add_time(&mut value, "old_due", Some(*old));
        }
        PutOutcome::Exists(state, at) | PutOutcome::Conflict(state, at) | PutOutcome::Changed(state, at) => {
            value["state"] = state.word().into();
            add_time(&mut value, "since", Some(*at));
        }
        PutOutcome::Newer => value["state"] = "newer".into(),
        PutOutcome::Malformed => value["state"] = "malformed".into(),
        PutOutcome::Refused(why) => value["reason"] = why.as_str().into(),
        PutOutcome::Unknown | PutOutcome::Leased | PutOutcome::Stale | PutOutcome::Spooled => {}
    }
    value
}

/// What became of a cancel.
#[must_use]
pub fn cancel(id: &MessageId, outcome: &CancelOutcome) -> Value {
    let mut value = json!({ "id": id, "outcome": cancel_word(outcome) });
    match outcome {
        CancelOutcome::Finished(state, at) => {
            value["state"] = state.word().into();
            add_time(&mut value, "since", Some(*at));
        }
        CancelOutcome::Failed(why) => value["reason"] = why.as_str().into(),
        _ => {}
    }
    value
}

/// The word of what became of a cancel.
#[must_use]
pub const fn cancel_word(outcome: &CancelOutcome) -> &'static str {
    match outcome {
        CancelOutcome::Cancelled => "cancelled",
        CancelOutcome::Leased => "leased",
        CancelOutcome::Dead => "dead",
        CancelOutcome::Finished(..) => "finished",
        CancelOutcome::Unknown => "unknown",
        CancelOutcome::Spooled => "spooled",
        CancelOutcome::Failed(_) => "failed",
    }
}

/// What became of a reschedule.
#[must_use]
pub fn reschedule(id: &MessageId, outcome: &RescheduleOutcome) -> Value {
    match outcome {
        RescheduleOutcome::Moved { old, due, ready } => json!({
            "id": id, "outcome": "moved", "old_due_at": time(*old), "old_due_ms": old, "due_at": time(*due), "due_ms": due,
            "ready_now": ready,
        }),
        RescheduleOutcome::Changed(due) => {
            json!({ "id": id, "outcome": "changed", "due_at": time(*due), "due_ms": due })
        }
        RescheduleOutcome::Leased => json!({ "id": id, "outcome": "leased" }),
        RescheduleOutcome::Dead => json!({ "id": id, "outcome": "dead" }),
        RescheduleOutcome::Finished(state, at) => {
            json!({ "id": id, "outcome": "finished", "state": state.word(), "since_at": time(*at), "since_ms": at })
        }
        RescheduleOutcome::Unknown => json!({ "id": id, "outcome": "unknown" }),
        RescheduleOutcome::Spooled => json!({ "id": id, "outcome": "spooled" }),
        RescheduleOutcome::Refused(why) => json!({ "id": id, "outcome": "refused", "reason": why }),
        RescheduleOutcome::Failed(why) => json!({ "id": id, "outcome": "failed", "reason": why }),
    }
}

/// What became of a settlement.
#[must_use]
pub fn settled(settled: &Settled) -> Value {
    let mut value = json!({ "outcome": match settled {
        Settled::Delivered => "delivered",
        Settled::Delayed(_) => "delayed",
        Settled::Ready => "ready",
        Settled::Buried => "buried",
        Settled::Cancelled => "cancelled",
        Settled::MessageExpired => "expired",
        Settled::Extended(_) | Settled::ExtendedDoomed(_) => "extended",
        Settled::LeaseLost => "lost",
        Settled::Failed(_) => "failed",
    } });
    match settled {
        Settled::Delayed(due) => add_time(&mut value, "due", Some(*due)),
        Settled::Extended(ends) => add_time(&mut value, "lease_ends", Some(*ends)),
        Settled::ExtendedDoomed(ends) => {
            add_time(&mut value, "lease_ends", Some(*ends));
            value["cancelled_while_leased"] = true.into();
        }
        Settled::Failed(why) => value["reason"] = why.as_str().into(),
        _ => {}
    }
    value
}
