//! A stored message.

use super::add_time;
use base64::Engine as _;
use delayq::admin::Listed;
use delayq::{Group, State};
use serde_json::{Value, json};

/// A message as JSON; the payload only if it is asked for.
pub fn message(listed: &Listed, payload: bool) -> Value {
    let group = listed.group.as_ref().map(Group::as_str);
    let mut value = json!({ "id": listed.id, "topic": listed.topic, "group": group, "shard": listed.shard });
    let envelope = match &listed.envelope {
        Ok(envelope) => envelope,
        Err(error) => {
            value["unreadable"] = error.to_string().into();
            return value;
        }
    };
    value["state"] = envelope.state.word().into();
    add_time(&mut value, "due", Some(envelope.due));
    let at = if envelope.state == State::Leased { "lease_ends" } else { "since" };
    add_time(&mut value, at, Some(envelope.at));
    value["attempt"] = envelope.attempt.into();
    value["delivery"] = envelope.delivery.into();
    if envelope.state.is_over() {
        return value;
    }
    value["max_attempts"] = envelope.max_attempts.into();
    add_time(&mut value, "expires", envelope.expires);
    value["cancelled_while_leased"] = envelope.doomed.into();
    value["has_successor"] = envelope.has_successor.into();
    value["held_by_group"] = envelope.held.into();
    value["group_paused"] = envelope.paused.into();
    value["group_blocked"] = envelope.blocked.into();
    value["blocks_group"] = envelope.blocks.into();
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
        // A hash would confirm a guess of a payload that is not shown.
        value["content_hash"] = envelope.hash.map(|hash| hash.to_string()).into();
        value["payload_is_zstd"] = envelope.zstd.into();
    }
    value
}
