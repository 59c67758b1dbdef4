//! The answers of routes.

use crate::actions::Acted;
use crate::input::Ask;
use crate::problem::Problem;
use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

/// The answer of a route.
pub(super) type Answer = Result<Response, Problem>;

/// The answer for one of many items.
pub(super) type ItemAnswer = Result<Value, Problem>;

/// An answer in JSON.
pub(super) fn json(status: StatusCode, value: &Value) -> Response {
    typed(status, "application/json", value.to_string())
}

pub(super) fn typed(status: StatusCode, kind: &'static str, body: impl Into<Body>) -> Response {
    let mut response = Response::new(body.into());
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

/// JSON with its ETag, or 304 if that is the `If-None-Match` of the request.
pub(super) fn tagged(ask: &Ask, tag: &str, text: String) -> Answer {
    let known = ask.header("if-none-match")?.unwrap_or_default();
    let is_known = known.split(',').any(|one| one.trim().trim_start_matches("W/") == tag);
    let mut response = typed(StatusCode::OK, "application/json", text);
    if is_known {
        response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::NOT_MODIFIED;
    }
    response.headers_mut().insert(header::ETAG, HeaderValue::from_str(tag).expect("it is hex and digits"));
    Ok(response)
}

/// The same for equal texts.
pub(super) fn hash(text: &str) -> String {
    hex::encode(&Sha256::digest(text)[..8])
}

/// For the log of actions: how many messages were changed, and details.
pub(super) fn counted((response, messages): (Response, u64), with: Option<Value>) -> Response {
    acted(response, Acted { messages, with, action: None })
}

pub(super) fn acted(mut response: Response, acted: Acted) -> Response {
    response.extensions_mut().insert(acted);
    response
}

pub(super) fn nothing() -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    response
}
