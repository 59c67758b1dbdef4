//! The values of a step: messages, changes, requests.

use crate::conformance::run::Run;
use delayq::protocol::{ContentHash, ReserveRequest};
use delayq::{
    Backoff, Due, Group, Members, Message, MessageId, Reschedule, Shift, Target, Topic, UnixMillis,
};
use serde_json::Value;
use std::time::Duration;

impl Run<'_> {
    pub(crate) fn message(&self, said: &Value) -> Option<Message> {
        let payload = match said["payload"].as_str() {
            Some(payload) => {
                payload.repeat(said["payload_times"].as_u64().unwrap_or(1) as usize).into_bytes()
            }
            None => unhex(text(&said["payload_hex"])),
        };
        let mut message = Message::new(Topic::new(text(&said["topic"])).ok()?, payload);
        if let Some(id) = said.get("id") {
            message = message.with_id(text(&self.known(id)).parse().ok()?);
        }
        if let Some(group) = said["group"].as_str() {
            message = message.group(group).ok()?;
        }
        if let Some(due) = said["at_ms"].as_u64() {
            message = message.at(UnixMillis::new(due));
        }
        if let Some(delay) = said["after_ms"].as_u64() {
            message = message.after(Duration::from_millis(delay));
        }
        for pair in said["headers"].as_array().into_iter().flatten() {
            message = message.header(text(&pair[0]), text(&pair[1]));
        }
        if let Some(expires) = said["expires_ms"].as_u64() {
            message = message.expires(UnixMillis::new(expires));
        }
        if let Some(lifetime) = said["expire_after_ms"].as_u64() {
            message = message.expire_after(Duration::from_millis(lifetime));
        }
        if let Some(attempts) = said["max_attempts"].as_u64() {
            message = message.max_attempts(attempts.try_into().unwrap());
        }
        if let Some(spec) = said.get("backoff") {
            message = message.backoff(backoff(spec));
        }
        if let Some(tried) = said["first_tried_ms"].as_u64() {
            message = message.first_tried(UnixMillis::new(tried));
        }
        if let Some(longest) = said["debounce_ms"].as_u64() {
            message = message.debounce(Duration::from_millis(longest));
        }
        if let Some(window) = said["throttle_ms"].as_u64() {
            message = message.throttle(Duration::from_millis(window));
        }
        if let Some(window) = said["swallow_ms"].as_u64() {
            message = message.swallow(Duration::from_millis(window));
        }
        message = match said["only"].as_str() {
            Some("later") => message.only_later(),
            Some("sooner") => message.only_sooner(),
            Some("content") => message.only_content(),
            _ => message,
        };
        if let Some(due) = said["expected_ms"].as_u64() {
            message = message.expecting(UnixMillis::new(due));
        }
        if let Some(hash) = said["expected_content"].as_str() {
            message = message.expecting(hash.parse::<ContentHash>().unwrap());
        }
        if said["keep_content"] == true {
            message = message.keep_content();
        }
        Some(if said["replace"] == true { message.replace() } else { message })
    }

    pub(crate) fn target(&self, step: &Value) -> (Topic, Target) {
        let id: MessageId = text(&self.known(&step["id"])).parse().unwrap();
        let group = step["group"].as_str().map(|group| Group::new(group).unwrap());
        (Topic::new(text(&step["topic"])).unwrap(), Target { id, group })
    }

    pub(crate) fn change(&self, step: &Value) -> Reschedule {
        let expected = step.get("expected_ms").map(|ms| UnixMillis::new(self.known(ms).as_u64().unwrap()));
        let due = match (step["at_ms"].as_u64(), step["after_ms"].as_u64()) {
            (Some(at), _) => Due::At(UnixMillis::new(at)),
            (None, Some(after)) => Due::After(Duration::from_millis(after)),
            (None, None) => {
                return Reschedule::By(
                    Shift::from_millis(step["by_ms"].as_i64().unwrap()),
                    expected.unwrap(),
                );
            }
        };
        expected.map_or(Reschedule::To(due), |expected| Reschedule::ToIfDue(due, expected))
    }
}

pub(crate) fn members(step: &Value) -> Members {
    let group = Group::new(text(&step["group"])).unwrap();
    Members { group, topic: step["topic"].as_str().map(|topic| Topic::new(topic).unwrap()) }
}

pub(crate) fn request(step: &Value) -> ReserveRequest {
    ReserveRequest {
        topics: list(&step["topics"]).iter().map(|name| Topic::new(text(name)).unwrap()).collect(),
        most: step["most"].as_u64().unwrap().try_into().unwrap(),
        max_bytes: 0,
        lease: step["lease_ms"].as_u64().map(Duration::from_millis),
    }
}

pub(crate) fn backoff(said: &Value) -> Backoff {
    let delays: Vec<_> =
        list(&said["delays_ms"]).iter().map(|ms| Duration::from_millis(ms.as_u64().unwrap())).collect();
    match text(&said["kind"]) {
        "fixed" => Backoff::Fixed(delays[0]),
        "exponential" => Backoff::Exponential { first: delays[0], longest: delays[1] },
        _ => Backoff::List(delays),
    }
}

pub(crate) fn numbered(said: &Value, n: usize) -> Value {
    let fill = |value: &Value| match value {
        Value::String(text) => text.replace('#', &n.to_string()).into(),
        other => other.clone(),
    };
    said.as_object().unwrap().iter().map(|(key, value)| (key.clone(), fill(value))).collect()
}

pub(crate) fn list(value: &Value) -> &[Value] {
    value.as_array().unwrap()
}

pub(crate) fn text(value: &Value) -> &str {
    value.as_str().unwrap()
}

pub(crate) fn unhex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|i| u8::from_str_radix(&text[i..i + 2], 16).unwrap()).collect()
}
