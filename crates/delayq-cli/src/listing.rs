//! A stored message as it is printed: one row of a table, or one JSON object.

use base64::Engine as _;
use delayq_core::{Listed, UnixMillis};
use serde_json::{Value, json};

use crate::output::{Output, time, time_from};

/// The columns of [`row`].
pub const COLUMNS: &[&str] = &["id", "topic", "group", "state", "due", ">attempt", ">bytes"];

/// A message as JSON; the payload only if it is asked for.
pub fn json_of(listed: &Listed, payload: bool) -> Value {
    let mut value = json!({ "id": listed.id, "topic": listed.topic, "shard": listed.shard });
    let envelope = match &listed.envelope {
        Ok(envelope) => envelope,
        Err(error) => {
            value["unreadable"] = error.to_string().into();
            return value;
        }
    };
    value["state"] = envelope.state.word().into();
    value["due_at"] = time(envelope.due).into();
    value["due_ms"] = envelope.due.get().into();
    value["since_ms"] = envelope.at.get().into();
    value["attempt"] = envelope.attempt.into();
    value["delivery"] = envelope.delivery.into();
    if envelope.state.is_over() {
        return value;
    }
    value["max_attempts"] = envelope.max_attempts.into();
    value["group"] = envelope.group.as_ref().map(|group| group.as_str().to_owned()).into();
    value["expires_ms"] = envelope.expires.map(UnixMillis::get).into();
    value["cancelled_while_leased"] = envelope.doomed.into();
    value["reason"] = envelope.reason.clone().into();
    value["headers"] = envelope.headers.iter().map(|(name, value)| json!([name, value])).collect();
    value["payload_bytes"] = envelope.payload.len().into();
    if payload {
        match std::str::from_utf8(&envelope.payload) {
            Ok(text) if !envelope.zstd => value["payload"] = text.into(),
            _ => {
                value["payload_base64"] =
                    base64::engine::general_purpose::STANDARD.encode(&envelope.payload).into();
            }
        }
        value["payload_is_zstd"] = envelope.zstd.into();
    }
    value
}

/// A table of messages.
pub fn table(output: Output, messages: &[Listed]) -> String {
    if messages.is_empty() {
        return "none".to_owned();
    }
    let mut rows = output.rows(COLUMNS);
    for listed in messages {
        rows.row(row(listed));
    }
    rows.text()
}

/// A message as a table's row.
fn row(listed: &Listed) -> [String; 7] {
    let (id, topic) = (listed.id.to_string(), listed.topic.to_string());
    match &listed.envelope {
        Err(error) => [
            id,
            topic,
            String::new(),
            "unreadable".to_owned(),
            error.to_string(),
            String::new(),
            String::new(),
        ],
        Ok(envelope) => [
            id,
            topic,
            envelope.group.as_ref().map(ToString::to_string).unwrap_or_default(),
            envelope.state.to_string(),
            time(envelope.due),
            envelope.attempt.to_string(),
            envelope.payload.len().to_string(),
        ],
    }
}

/// What happened to a message, as sentences, the newest last.
pub fn story(listed: &Listed, now: UnixMillis) -> Vec<String> {
    use delayq_core::State;
    let envelope = match &listed.envelope {
        Ok(envelope) => envelope,
        Err(error) => return vec![format!("it cannot be read: {error}")],
    };
    let since = time_from(envelope.at, now);
    let mut story = Vec::new();
    if envelope.delivery > 0 {
        let times =
            if envelope.delivery == 1 { "once".to_owned() } else { format!("{} times", envelope.delivery) };
        story.push(format!("handed out {times}, attempt {}", envelope.attempt));
    }
    let due = time_from(envelope.due, now);
    story.push(match envelope.state {
        State::Delayed => format!("waits for its due time {due}"),
        State::Ready => format!("ready since {since}; it was due {due}"),
        State::Leased if envelope.doomed => {
            format!("leased until {since}; cancelled meanwhile, so not tried again")
        }
        State::Leased => format!("leased until {since}; it was due {due}"),
        State::Dead => format!("dead since {since}"),
        State::Delivered => format!("delivered {since}; it was due {due}"),
        State::Cancelled => format!("cancelled {since}; it was due {due}"),
        State::Expired => format!("expired {since}; it was due {due}"),
        State::Purged => format!("thrown away by an operator {since}"),
    });
    story.extend(envelope.reason.as_ref().map(|reason| format!("because: {reason}")));
    story
}
