//! The answers of the admin endpoint's paths.

use crate::metrics::Metrics;
use crate::program::Program;
use crate::readiness::Readiness;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use serde_json::json;

/// The sources of the answers.
#[derive(Clone, Debug)]
pub struct AdminState {
    /// The binary and its version.
    pub program: Program,
    /// The metrics of `/metrics`.
    pub metrics: Metrics,
    /// The conditions of `/readyz` and the heartbeats of `/livez`.
    pub readiness: Readiness,
}

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The four paths.
pub fn router(state: AdminState) -> Router {
    Router::new()
        .route("/metrics", get(metrics))
        .route("/livez", get(livez))
        .route("/readyz", get(readyz))
        .route("/version", get(version))
        .with_state(state)
}

/// Sends exemplars only to a client that asks for OpenMetrics: a reader of the older format, which otherwise accepts
/// this text, rejects exemplars.
async fn metrics(State(state): State<AdminState>, headers: HeaderMap) -> Response {
    let accepted = headers.get_all(header::ACCEPT).iter().filter_map(|accept| accept.to_str().ok());
    let text = state.metrics.encode();
    let text = match accepted.into_iter().any(|accept| accept.contains("application/openmetrics-text")) {
        true => text,
        false => without_exemplars(&text),
    };
    ([(header::CONTENT_TYPE, OPEN_METRICS)], text).into_response()
}

/// Removes the exemplars of histogram buckets.
fn without_exemplars(text: &str) -> String {
    let sample = |line: &str| {
        let is_bucket = line.split('{').next().is_some_and(|name| name.ends_with("_bucket"));
        let end = line.rfind(" # {").filter(|_| is_bucket).unwrap_or(line.len());
        line[..end].to_owned() + "\n"
    };
    text.lines().map(sample).collect()
}

/// The answer itself proves that the runtime works; heartbeats cover every loop outside the runtime.
async fn livez(State(state): State<AdminState>) -> Response {
    let stuck = state.readiness.stuck();
    if stuck.is_empty() {
        return "alive\n".into_response();
    }
    (StatusCode::SERVICE_UNAVAILABLE, format!("stuck: {}\n", stuck.join(", "))).into_response()
}

async fn readyz(State(state): State<AdminState>) -> Response {
    let unready = state.readiness.unready();
    let status = if unready.is_empty() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let mut value = json!({ "ready": unready.is_empty(), "unready": unready });
    let failing = state.readiness.failing();
    if !failing.is_empty() {
        value["failing"] = json!(failing);
    }
    (status, Json(value)).into_response()
}

async fn version(State(state): State<AdminState>) -> Response {
    Json(json!({ "name": state.program.name, "version": state.program.version })).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_that_does_not_ask_for_exemplars_gets_the_samples_as_they_are() {
        let text = "# HELP a # {x}\na_bucket{le=\"1.0\"} 3 # {trace_id=\"4b\"} 0.5\na_bucket{le=\"+Inf\"} 3\nb{c=\" # {\"} 1\n# EOF\n";
        let bare =
            "# HELP a # {x}\na_bucket{le=\"1.0\"} 3\na_bucket{le=\"+Inf\"} 3\nb{c=\" # {\"} 1\n# EOF\n";
        assert_eq!(without_exemplars(text), bare);
    }
}
