//! The client's answers in the suite's form.

use crate::conformance::run::{Ended, Run};
use delayq::protocol::{Leased, Reservation};
use delayq::{
    CancelOutcome, Error, Group, GroupTally, Put, PutError, PutOutcome, RescheduleOutcome, Settled,
    UnixMillis,
};
use serde_json::{Value, json};

impl Run<'_> {
    pub(crate) fn shown_delivery(&mut self, found: &Reservation) -> Value {
        let envelope = &found.envelope;
        self.receipts.push(Leased {
            receipt: found.receipt.clone(),
            topic: found.topic.clone(),
            id: found.id.clone(),
            group: envelope.group.clone(),
        });
        json!({
            "receipt": self.receipts.len() - 1,
            "topic": found.topic.as_str(),
            "id": found.id.to_string(),
            "lease_end_ms": found.lease_end.get(),
            "payload": String::from_utf8_lossy(&envelope.payload),
            "payload_hex": hex(&envelope.payload),
            "due_ms": envelope.due.get(),
            "expires_ms": envelope.expires.map(UnixMillis::get),
            "group": envelope.group.as_ref().map(Group::as_str),
            "headers": envelope.headers,
            "max_attempts": envelope.max_attempts,
            "attempt": envelope.attempt,
            "delivery": envelope.delivery,
        })
    }
}

pub(crate) fn ended(result: Result<Value, Error>) -> Ended {
    result.map_or_else(|error| Ended::Fault(code(&error)), Ended::Answer)
}

pub(crate) fn changed(result: Result<GroupTally, Error>) -> Ended {
    ended(result.map(|tally| json!({"changed": tally.changed})))
}

pub(crate) fn one_put(result: Result<Put, PutError>) -> Ended {
    match result {
        Ok(put) => Ended::Answer(shown_put(&put)),
        Err(PutError { error: Error::Message(_) | Error::Name(_), .. }) => Ended::Invalid,
        Err(PutError { error, .. }) => Ended::Fault(code(&error)),
    }
}

pub(crate) fn code(error: &Error) -> String {
    match error {
        Error::Uninitialised(_) => "DQUNINITIALISED".to_owned(),
        Error::Layout { .. } => "DQLAYOUT".to_owned(),
        Error::Redis { code, .. } => code.clone(),
        other => other.to_string(),
    }
}

pub(crate) fn shown_put(put: &Put) -> Value {
    let mut shown = match &put.outcome {
        PutOutcome::Stored(due) => json!({"word": "stored", "time_ms": due.get()}),
        PutOutcome::Ready(due) => json!({"word": "ready", "time_ms": due.get()}),
        PutOutcome::Again { state, old, due } => {
            json!({"word": "again", "state": state.word(), "old_ms": old.get(), "time_ms": due.get()})
        }
        PutOutcome::Exists(state, at) => {
            json!({"word": "exists", "state": state.word(), "time_ms": at.get()})
        }
        PutOutcome::Conflict(state, at) => {
            json!({"word": "conflict", "state": state.word(), "time_ms": at.get()})
        }
        PutOutcome::Changed(state, at) => {
            json!({"word": "changed", "state": state.word(), "time_ms": at.get()})
        }
        PutOutcome::Unknown => json!({"word": "unknown"}),
        PutOutcome::Newer => json!({"word": "conflict", "state": "newer", "time_ms": 0}),
        PutOutcome::Malformed => json!({"word": "conflict", "state": "malformed", "time_ms": 0}),
        PutOutcome::Leased => json!({"word": "leased"}),
        PutOutcome::Stale => json!({"word": "stale"}),
        PutOutcome::Spooled => json!({"word": "spooled"}),
        PutOutcome::Refused(why) => json!({"word": "refused", "why": why}),
    };
    shown["id"] = json!(put.reference.id.to_string());
    shown["shard"] = json!(put.reference.shard.get());
    shown
}

pub(crate) fn shown_cancel(outcome: &CancelOutcome) -> Value {
    match outcome {
        CancelOutcome::Cancelled => json!({"word": "cancelled"}),
        CancelOutcome::Leased => json!({"word": "leased"}),
        CancelOutcome::Dead => json!({"word": "dead"}),
        CancelOutcome::Finished(state, at) => {
            json!({"word": "finished", "state": state.word(), "time_ms": at.get()})
        }
        CancelOutcome::Unknown => json!({"word": "unknown"}),
        CancelOutcome::Spooled => json!({"word": "spooled"}),
        CancelOutcome::Failed(why) => json!({"word": "failed", "why": why}),
    }
}

pub(crate) fn shown_reschedule(outcome: &RescheduleOutcome) -> Value {
    match outcome {
        RescheduleOutcome::Moved { old, due, ready } => {
            json!({"word": if *ready { "ready" } else { "delayed" }, "old_ms": old.get(), "time_ms": due.get()})
        }
        RescheduleOutcome::Changed(due) => json!({"word": "changed", "time_ms": due.get()}),
        RescheduleOutcome::Leased => json!({"word": "leased"}),
        RescheduleOutcome::Dead => json!({"word": "dead"}),
        RescheduleOutcome::Finished(state, at) => {
            json!({"word": "finished", "state": state.word(), "time_ms": at.get()})
        }
        RescheduleOutcome::Unknown => json!({"word": "unknown"}),
        RescheduleOutcome::Spooled => json!({"word": "spooled"}),
        RescheduleOutcome::Refused(why) => json!({"word": "refused", "why": why}),
        RescheduleOutcome::Failed(why) => json!({"word": "failed", "why": why}),
    }
}

pub(crate) fn shown_settled(settled: &Settled) -> Value {
    let extended =
        |end: &UnixMillis, doomed: bool| json!({"word": "extended", "time_ms": end.get(), "doomed": doomed});
    match settled {
        Settled::Delivered => json!({"word": "delivered"}),
        Settled::Delayed(due) => json!({"word": "delayed", "time_ms": due.get()}),
        Settled::Ready => json!({"word": "ready"}),
        Settled::Buried => json!({"word": "buried"}),
        Settled::Cancelled => json!({"word": "cancelled"}),
        Settled::MessageExpired => json!({"word": "expired-message"}),
        Settled::Extended(end) => extended(end, false),
        Settled::ExtendedDoomed(end) => extended(end, true),
        Settled::LeaseLost => json!({"word": "expired"}),
        Settled::Failed(why) => json!({"word": "failed", "why": why}),
    }
}

pub(crate) fn shown_item(item: &redis::Value) -> String {
    match item {
        redis::Value::Int(n) => n.to_string(),
        redis::Value::BulkString(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        redis::Value::SimpleString(text) => text.clone(),
        other => format!("{other:?}"),
    }
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
