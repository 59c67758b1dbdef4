//! Answers as lmstfy writes them: keys in alphabetical order, characters escaped that mean something in HTML.

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use serde::Serialize;
use serde_json::ser::{PrettyFormatter, Serializer};
use serde_json::{Value, json};
use std::fmt::Display;

pub(super) const JSON: &str = "application/json; charset=utf-8";

pub(super) type JobReply = Result<Response, Refusal>;

/// Boxed, because an answer is large for an error.
pub(super) type Refusal = Box<Response>;

/// On one line.
pub(super) fn said(status: u16, value: &impl Serialize) -> Response {
    typed(status, JSON, text(value))
}

pub(super) fn indented(status: u16, value: &Value) -> Response {
    typed(status, JSON, indented_text(value))
}

pub(super) fn error(status: u16, text: &str) -> Refusal {
    refusal(status, &json!({ "error": text }))
}

pub(super) fn refusal(status: u16, value: &impl Serialize) -> Refusal {
    Box::new(said(status, value))
}

pub(super) fn nothing() -> Response {
    empty(204)
}

pub(super) fn empty(status: u16) -> Response {
    answer(status, Body::empty())
}

/// The reason is only logged.
pub(super) fn internal(why: impl Display) -> Refusal {
    tracing::warn!(%why, "lmstfy's API answers 500");
    error(500, "internal error")
}

pub(super) fn typed(status: u16, kind: &'static str, body: impl Into<Body>) -> Response {
    let mut response = answer(status, body);
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

pub(super) fn text(value: &impl Serialize) -> String {
    escaped(&serde_json::to_string(value).expect("an answer is made of texts and numbers"))
}

pub(super) fn indented_text(value: &Value) -> String {
    let mut bytes = Vec::new();
    let mut serializer = Serializer::with_formatter(&mut bytes, PrettyFormatter::with_indent(b"    "));
    value.serialize(&mut serializer).expect("a vector takes every byte");
    escaped(&String::from_utf8(bytes).expect("JSON is UTF-8"))
}

fn answer(status: u16, body: impl Into<Body>) -> Response {
    let mut response = Response::new(body.into());
    *response.status_mut() = StatusCode::from_u16(status).expect("the statuses here are valid");
    response
}

/// As Go's encoder: these characters are in texts only.
fn escaped(json: &str) -> String {
    let mut escaped = String::with_capacity(json.len());
    for c in json.chars() {
        match c {
            '<' => escaped.push_str("\\u003c"),
            '>' => escaped.push_str("\\u003e"),
            '&' => escaped.push_str("\\u0026"),
            '\u{2028}' => escaped.push_str("\\u2028"),
            '\u{2029}' => escaped.push_str("\\u2029"),
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_written_as_go_writes_it() {
        let value = json!({ "b": "a<b>&c", "a": [1], "é": null });
        assert_eq!(text(&value), r#"{"a":[1],"b":"a\u003cb\u003e\u0026c","é":null}"#);
        assert_eq!(
            indented_text(&json!({ "a": ["x"], "b": [] })),
            "{\n    \"a\": [\n        \"x\"\n    ],\n    \"b\": []\n}"
        );
    }
}
