//! The form of a body.

use crate::problem::{Kind, Problem};
use axum::http::{HeaderMap, header};
use delayq_service::headers::STRUCTURED_EVENT;

pub(crate) const JSON: &str = "application/json";
pub(crate) const EVENTS: &str = "application/cloudevents-batch+json";
const NDJSON: [&str; 3] = ["application/x-ndjson", "application/ndjson", "application/jsonl"];

/// The form of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Json,
    Ndjson,
    /// An event as a JSON document.
    Event,
    /// An array of events.
    Events,
    Other,
}

// === impl Form ===

impl Form {
    pub(super) fn of(headers: &HeaderMap) -> Self {
        let value = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
        let kind = value.unwrap_or_default().split(';').next().unwrap_or_default().trim();
        match kind {
            kind if kind.eq_ignore_ascii_case(JSON) => Self::Json,
            kind if NDJSON.iter().any(|ndjson| kind.eq_ignore_ascii_case(ndjson)) => Self::Ndjson,
            kind if kind.eq_ignore_ascii_case(STRUCTURED_EVENT) => Self::Event,
            kind if kind.eq_ignore_ascii_case(EVENTS) => Self::Events,
            _ => Self::Other,
        }
    }
}

/// True if `Accept` prefers an array of events to JSON. A type that it does not name is not preferred.
pub(crate) fn wants_events(headers: &HeaderMap) -> bool {
    let values = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let kinds: Vec<&str> = values.flat_map(|value| value.split(',')).collect();
    let weight = |wanted: &str| kinds.iter().filter_map(|kind| weight_of(kind, wanted)).fold(0.0, f64::max);
    weight(EVENTS) > weight(JSON)
}

/// The `q` of a type in `Accept`, 1 by default; `None` of another type.
fn weight_of(kind: &str, wanted: &str) -> Option<f64> {
    let mut parts = kind.split(';').map(str::trim);
    if !parts.next()?.eq_ignore_ascii_case(wanted) {
        return None;
    }
    let weight = parts.find_map(|part| part.strip_prefix("q=").or_else(|| part.strip_prefix("Q=")));
    Some(weight.map_or(1.0, |weight| weight.parse().unwrap_or(0.0)))
}

pub(super) fn other_type(wanted: &str) -> Problem {
    Problem::new(Kind::OtherType, format!("send Content-Type: {wanted}")).at("content-type")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_wanted_where_they_are_preferred_to_json() {
        for (accept, wanted) in [
            ("application/cloudevents-batch+json", true),
            ("Application/CloudEvents-Batch+JSON; q=0.2, */*", true),
            ("application/json;q=0.5, application/cloudevents-batch+json", true),
            ("application/json, application/cloudevents-batch+json", false),
            ("application/cloudevents-batch+json;q=0", false),
            ("application/cloudevents-batch+json;q=much", false),
            ("application/cloudevents+json, */*", false),
            ("", false),
        ] {
            let headers = HeaderMap::from_iter([(header::ACCEPT, accept.parse().unwrap())]);
            assert_eq!(wants_events(&headers), wanted, "{accept}");
        }
    }
}
