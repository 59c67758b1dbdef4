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

/// True if the client wants an array of events.
pub(crate) fn wants_events(headers: &HeaderMap) -> bool {
    let values = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let mut kinds =
        values.flat_map(|value| value.split(',')).map(|kind| kind.split(';').next().unwrap_or_default());
    kinds.any(|kind| kind.trim().eq_ignore_ascii_case(EVENTS))
}

pub(super) fn other_type(wanted: &str) -> Problem {
    Problem::new(Kind::OtherType, format!("send Content-Type: {wanted}")).at("content-type")
}
