//! A single record of a spool, with the payload.

use super::fault::unusable;
use crate::commands::get::shown;
use crate::failure::{unknown, usage};
use crate::output::{Output, add_time, payload, time};
use base64::Engine as _;
use delayq::spool::{AnyRecord, GroupChange, SpoolAction, SpoolRecord};
use delayq::{Due, Fate, Message, Reschedule, UnixMillis};
use delayq_service::Fault;
use delayq_service::config::HumanDuration;
use delayq_spool::SpoolReader;
use serde_json::{Value, json};

struct FoundRecord {
    number: u64,
    spooled_at: UnixMillis,
    rejected: Option<(UnixMillis, String)>,
    record: Result<AnyRecord, String>,
}

pub(super) fn show(
    reader: &SpoolReader,
    number: u64,
    only_payload: bool,
    output: Output,
) -> Result<(), Fault> {
    let found = FoundRecord::of(reader, number)?;
    if only_payload {
        return match found.record.map_err(usage)?.message().map(|record| &record.action) {
            Some(SpoolAction::Put(message)) => payload(&message.payload),
            _ => Err(usage(format!("record {number} is not a put: it has no payload"))),
        };
    }
    output.print(&found.json(), || {
        let mut rows = output.rows(&["field", "value"]);
        for (name, value) in found.fields() {
            rows.row([name.to_owned(), value]);
        }
        rows.text()
    })
}

/// A delay counts from the attempt, on this host's clock.
pub(super) fn due_at(due: Due, tried_at: UnixMillis) -> UnixMillis {
    match due {
        Due::At(due) => due,
        Due::After(delay) => tried_at + delay,
    }
}

// === impl FoundRecord ===

impl FoundRecord {
    fn of(reader: &SpoolReader, number: u64) -> Result<Self, Fault> {
        let before = number.saturating_sub(1);
        let waiting = reader.waiting(before, 1).map_err(unusable)?.pop().filter(|found| found.seq == number);
        if let Some(found) = waiting {
            return Ok(Self { number, spooled_at: found.spooled_at, rejected: None, record: found.record });
        }
        let rejected =
            reader.rejected(before, 1).map_err(unusable)?.pop().filter(|found| found.seq == number);
        let found = rejected.ok_or_else(|| {
            unknown(format!("no record {number}; see delayq spool waiting, delayq spool rejected"))
        })?;
        let rejected = Some((found.rejected_at, found.reason));
        Ok(Self { number, spooled_at: found.spooled_at, rejected, record: found.record })
    }

    fn state(&self) -> &'static str {
        if self.rejected.is_some() { "rejected" } else { "waiting" }
    }

    fn fields(&self) -> Vec<(&'static str, String)> {
        let mut fields = vec![("number", self.number.to_string()), ("state", self.state().to_owned())];
        fields.push(("spooled", time(self.spooled_at)));
        if let Some((at, reason)) = &self.rejected {
            fields.extend([("rejected", time(*at)), ("reason", reason.clone())]);
        }
        let record = match &self.record {
            Ok(record) => record,
            Err(why) => {
                fields.push(("unreadable", why.clone()));
                return fields;
            }
        };
        fields.push(("verb", record.verb().to_owned()));
        match record {
            AnyRecord::Message(record) => fields_of_message(&mut fields, record),
            AnyRecord::Group(record) => {
                fields.push(("group", record.group.to_string()));
                fields.push(("tried", tried(record.tried_at, record.fate)));
                if let GroupChange::Shift { by, token } = &record.change {
                    fields.push(("change", format!("by {} ms", by.millis())));
                    fields.push(("token", token.clone()));
                }
            }
        }
        fields
    }

    fn json(&self) -> Value {
        let mut value = json!({ "number": self.number, "state": self.state() });
        add_time(&mut value, "spooled", Some(self.spooled_at));
        if let Some((at, reason)) = &self.rejected {
            add_time(&mut value, "rejected", Some(*at));
            value["reason"] = reason.as_str().into();
        }
        let record = match &self.record {
            Ok(record) => record,
            Err(why) => {
                value["unreadable"] = why.as_str().into();
                return value;
            }
        };
        value["verb"] = record.verb().into();
        match record {
            AnyRecord::Message(record) => json_of_message(&mut value, record),
            AnyRecord::Group(record) => {
                value["group"] = record.group.as_str().into();
                add_time(&mut value, "tried", Some(record.tried_at));
                value["fate"] = fate(record.fate).into();
                if let GroupChange::Shift { by, token } = &record.change {
                    value["change"] = format!("by {} ms", by.millis()).into();
                    value["token"] = token.as_str().into();
                }
            }
        }
        value
    }
}

pub(in crate::commands) fn fields_of_message(fields: &mut Vec<(&'static str, String)>, record: &SpoolRecord) {
    fields.extend([("topic", record.topic.to_string()), ("id", record.target.id.to_string())]);
    fields.extend(record.target.group.as_ref().map(|group| ("group", group.to_string())));
    fields.push(("tried", tried(record.tried_at, record.fate)));
    match &record.action {
        SpoolAction::Cancel => {}
        SpoolAction::Reschedule(change) => fields.push(("change", changed(*change, record.tried_at))),
        SpoolAction::Put(message) => {
            fields.push(("due", time(due_at(message.due, record.tried_at))));
            fields.extend(message.expires.map(|at| ("expires", time(at))));
            let lifetime = message.expire_after.map(HumanDuration::from);
            fields.extend(lifetime.map(|lifetime| ("expires", format!("{lifetime} after the due time"))));
            fields.extend(message.replace.then(|| ("replaces", "a message with its id".to_owned())));
            let again = Some(message.again).filter(|again| !again.is_plain());
            fields.extend(again.map(|again| ("again", again.to_string())));
            let headers = message.headers.iter().map(|(name, value)| ("header", format!("{name}={value}")));
            fields.extend(headers);
            fields.push(("payload", shown(&message.payload)));
        }
    }
}

pub(in crate::commands) fn json_of_message(value: &mut Value, record: &SpoolRecord) {
    value["topic"] = record.topic.as_str().into();
    value["id"] = record.target.id.to_string().into();
    value["group"] = record.target.group.as_ref().map(|group| group.as_str().to_owned()).into();
    add_time(value, "tried", Some(record.tried_at));
    value["fate"] = fate(record.fate).into();
    match &record.action {
        SpoolAction::Cancel => {}
        SpoolAction::Reschedule(change) => value["change"] = changed(*change, record.tried_at).into(),
        SpoolAction::Put(message) => put(value, message, record.tried_at),
    }
}

fn put(value: &mut Value, message: &Message, tried_at: UnixMillis) {
    add_time(value, "due", Some(due_at(message.due, tried_at)));
    add_time(value, "expires", message.expires);
    value["expire_after_ms"] = message.expire_after.map(|lifetime| lifetime.as_millis() as u64).into();
    value["replace"] = message.replace.into();
    value["again"] = message.again.to_string().into();
    value["max_attempts"] = message.max_attempts.into();
    value["headers"] = message.headers.iter().map(|(name, value)| json!([name, value])).collect();
    value["payload_bytes"] = message.payload.len().into();
    match std::str::from_utf8(&message.payload) {
        Ok(text) => value["payload"] = text.into(),
        Err(_) => {
            let text = base64::engine::general_purpose::STANDARD.encode(&message.payload);
            value["payload_base64"] = text.into();
        }
    }
}

const fn fate(fate: Fate) -> &'static str {
    match fate {
        Fate::NotApplied => "not applied",
        Fate::Unknown => "unknown",
    }
}

fn tried(at: UnixMillis, of: Fate) -> String {
    format!("{}, {}", time(at), fate(of))
}

fn changed(change: Reschedule, tried_at: UnixMillis) -> String {
    match change {
        Reschedule::To(due) => format!("to {}", time(due_at(due, tried_at))),
        Reschedule::ToIfDue(due, expected) => {
            format!("to {} if it is due {}", time(due_at(due, tried_at)), time(expected))
        }
        Reschedule::By(by, expected) => format!("by {} ms if it is due {}", by.millis(), time(expected)),
    }
}
