//! The options of the calls and of constructors, and values that every option refuses.

use super::Number;
use delayq_core::id::Namespace;
use delayq_core::limits::{DEFAULT_CONCURRENCY, MAX_CONCURRENCY, MAX_IDS_A_CALL, MAX_TIMEOUT_MS};
use delayq_core::message::{DEFAULT_PAYLOAD_BYTES, MAX_PAYLOAD_BYTES};
use delayq_core::policy::{MAX_LEASE_MS, MAX_SPAN_MS};
use serde::Serialize;

/// Values without a meaning for any option, by name: every client tries each on every option that the type
/// system admits.
pub(super) const ODD: [&str; 16] = [
    "null",
    "NaN",
    "Infinity",
    "-Infinity",
    "-1",
    "0.5",
    "2^31",
    "2^53",
    "empty text",
    "a space",
    "'false'",
    "{}",
    "[]",
    "a lone surrogate",
    "5 MB",
    "true",
];

#[derive(Serialize)]
pub(super) struct Opt {
    pub(super) call: &'static str,
    pub(super) option: &'static str,
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    unit: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    least: Option<Number>,
    #[serde(skip_serializing_if = "Option::is_none")]
    most: Option<Number>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    words: &'static [&'static str],
    /// The value of a constructor that is given none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) default: Option<Fixed>,
}

#[derive(Clone, Serialize)]
#[serde(untagged)]
pub(super) enum Fixed {
    Text(String),
    Number(usize),
    Flag(bool),
}

/// Options of constructors with a default of their own.
fn default_of(call: &str, option: &str) -> Option<Fixed> {
    match (call, option) {
        ("client", "namespace") => Some(Fixed::Text(Namespace::default().to_string())),
        ("client", "max_payload_bytes") => Some(Fixed::Number(DEFAULT_PAYLOAD_BYTES)),
        ("worker", "concurrency") => Some(Fixed::Number(DEFAULT_CONCURRENCY)),
        ("worker", "pump") => Some(Fixed::Flag(false)),
        _ => None,
    }
}

/// The defaults of constructors, by option.
pub(super) fn defaults() -> impl Iterator<Item = (&'static str, Fixed)> {
    options().into_iter().filter_map(|one| Some((one.option, one.default?)))
}

pub(super) fn options() -> Vec<Opt> {
    let mut all = Vec::new();
    for (call, listed) in CALLS {
        for &(option, kind) in *listed {
            let (least, most, words): (_, _, &[&str]) = match kind {
                "span" => (Some(0), Some(MAX_SPAN_MS), &[]),
                "lease" => (Some(1), Some(MAX_LEASE_MS), &[]),
                "longest wait" => (Some(1), Some(MAX_SPAN_MS), &[]),
                "rule" => (None, None, &["later", "sooner", "content"]),
                // An example.
                "content hash" => (None, None, &["0123456789abcdef"]),
                "attempts" => (Some(0), Some(u16::MAX.into()), &[]),
                "payload limit" => (Some(1), Some(MAX_PAYLOAD_BYTES as u64), &[]),
                "timeout" => (Some(1), Some(MAX_TIMEOUT_MS), &[]),
                "concurrency" => (Some(1), Some(MAX_CONCURRENCY as u64), &[]),
                "count" => (Some(1), Some(MAX_IDS_A_CALL as u64), &[]),
                "state listed" => (None, None, &["delayed", "ready", "leased", "dead"]),
                "state purged" => (None, None, &["delayed", "ready", "dead"]),
                _ => (None, None, &[]),
            };
            let kind = match kind {
                "lease" | "longest wait" | "timeout" => "span",
                "rule" | "content hash" => "word",
                "attempts" | "payload limit" | "concurrency" => "count",
                kind if kind.starts_with("state") => "word",
                kind => kind,
            };
            let number = |number: Option<u64>| number.map(Number::Whole);
            let unit = (kind == "span").then_some("ms");
            let default = default_of(call, option);
            all.push(Opt {
                call,
                option,
                kind,
                unit,
                least: number(least),
                most: number(most),
                words,
                default,
            });
        }
    }
    all
}

const MESSAGE: [(&str, &str); 3] = [("topic", "topic"), ("id", "id"), ("group", "group")];

const CALLS: &[(&str, &[(&str, &str)])] = &[
    (
        "put",
        &[
            ("topic", "topic"),
            ("payload", "bytes"),
            ("id", "id"),
            ("at", "time"),
            ("after", "span"),
            ("group", "group"),
            ("header name", "header name"),
            ("header value", "text"),
            ("expires", "time"),
            ("expire_after", "longest wait"),
            ("max_attempts", "attempts"),
            ("backoff", "backoff"),
            ("replace", "flag"),
            ("debounce", "longest wait"),
            ("throttle", "longest wait"),
            ("swallow", "longest wait"),
            ("only", "rule"),
            ("keep_content", "flag"),
            ("expected", "time"),
            ("expected_content", "content hash"),
            ("first_tried", "time"),
        ],
    ),
    ("cancel", &MESSAGE),
    ("get", &MESSAGE),
    (
        "reschedule",
        &[
            MESSAGE[0],
            MESSAGE[1],
            MESSAGE[2],
            ("at", "time"),
            ("after", "span"),
            ("by", "difference"),
            ("expected", "time"),
        ],
    ),
    ("reserve", &[("topic", "topic"), ("max", "count"), ("lease", "lease"), ("wait", "span")]),
    ("extend", &[("receipt", "receipt"), ("lease", "lease")]),
    ("ack", &[("receipt", "receipt")]),
    ("release", &[("receipt", "receipt"), ("delay", "span"), ("keep_attempt", "flag"), ("reason", "reason")]),
    ("bury", &[("receipt", "receipt"), ("reason", "reason")]),
    ("replay", &[("topic", "topic"), ("id", "id"), ("group", "group"), ("delay", "span")]),
    ("list", &[("topic", "topic"), ("state", "state listed"), ("from", "time"), ("to", "time")]),
    ("promote", &[("topic", "topic"), ("from", "time"), ("to", "time")]),
    ("purge", &[("topic", "topic"), ("state", "state purged"), ("from", "time"), ("to", "time")]),
    ("group", &[("group", "group"), ("topic", "topic")]),
    ("shift", &[("by", "difference"), ("token", "token")]),
    // Constructors.
    (
        "client",
        &[("namespace", "namespace"), ("max_payload_bytes", "payload limit"), ("confirm_timeout", "timeout")],
    ),
    ("worker", &[("topic", "topic"), ("concurrency", "concurrency"), ("lease", "lease"), ("pump", "flag")]),
];
