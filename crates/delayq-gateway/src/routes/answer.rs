//! The answers of routes.

use crate::actions::Acted;
use crate::problem::Problem;
use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use serde_json::Value;

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
