//! The calls of the admin API, by method and path.

use crate::lmstfy::call::segments;
use crate::lmstfy::reply;
use axum::http::{HeaderValue, Method, header};
use axum::response::Response;

/// Names are of a namespace, and a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Act {
    Info,
    Version,
    Metrics,
    Pools,
    AccessLog,
    SetAccessLog,
    Tokens(String),
    NewToken(String),
    DeleteToken(String, String),
    Limits,
    Limit(String, String),
    NewLimit(String, String),
    SetLimit(String, String),
    DeleteLimit(String, String),
}

// === impl Act ===

impl Act {
    pub(super) const fn needs_account(&self) -> bool {
        !matches!(self, Self::Info | Self::Version | Self::Metrics | Self::Pools | Self::AccessLog)
    }
}

/// `None` for an unknown call.
pub(super) fn found(method: &Method, path: &str) -> Option<Act> {
    let segments = segments(path)?;
    let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
    if segments.iter().any(|segment| segment.is_empty()) {
        return None;
    }
    let own = |text: &str| text.to_owned();
    Some(match (method.as_str(), segments.as_slice()) {
        ("GET", ["info"]) => Act::Info,
        ("GET", ["version"]) => Act::Version,
        ("GET", ["metrics"]) => Act::Metrics,
        ("GET", ["pools"]) => Act::Pools,
        ("GET", ["accesslog"]) => Act::AccessLog,
        ("POST", ["accesslog"]) => Act::SetAccessLog,
        ("GET", ["limits"]) => Act::Limits,
        ("GET", ["token", namespace]) => Act::Tokens(own(namespace)),
        ("POST", ["token", namespace]) => Act::NewToken(own(namespace)),
        ("DELETE", ["token", namespace, token]) => Act::DeleteToken(own(namespace), own(token)),
        ("GET", ["token", namespace, token, "limit"]) => Act::Limit(own(namespace), own(token)),
        ("POST", ["token", namespace, token, "limit"]) => Act::NewLimit(own(namespace), own(token)),
        ("PUT", ["token", namespace, token, "limit"]) => Act::SetLimit(own(namespace), own(token)),
        ("DELETE", ["token", namespace, token, "limit"]) => Act::DeleteLimit(own(namespace), own(token)),
        _ => return None,
    })
}

/// The way to the path without its last `/`, if there is a call.
pub(super) fn elsewhere(method: &Method, path: &str, query: Option<&str>) -> Option<Response> {
    let bare = path.strip_suffix('/').filter(|bare| found(method, bare).is_some())?;
    let to = query.map_or_else(|| bare.to_owned(), |query| format!("{bare}?{query}"));
    let (status, body) = match method.as_str() {
        "GET" => (301, format!("<a href=\"{}\">Moved Permanently</a>.\n\n", to.replace('&', "&amp;"))),
        _ => (307, String::new()),
    };
    let mut response = match body.is_empty() {
        true => reply::empty(status),
        false => reply::typed(status, "text/html; charset=utf-8", body),
    };
    response.headers_mut().insert(header::LOCATION, HeaderValue::from_str(&to).ok()?);
    Some(response)
}
