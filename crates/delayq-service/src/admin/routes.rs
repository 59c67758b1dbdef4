//! What each path of the admin endpoint answers.

use crate::metrics::Metrics;
use crate::program::Program;
use crate::readiness::Readiness;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use serde_json::json;

/// The sources of the answers.
#[derive(Clone, Debug)]
pub struct AdminState {
    /// The binary and its version.
    pub program: Program,
    /// What `/metrics` shows.
    pub metrics: Metrics,
    /// What `/readyz` and `/livez` show.
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

async fn metrics(State(state): State<AdminState>) -> Response {
    ([(header::CONTENT_TYPE, OPEN_METRICS)], state.metrics.encode()).into_response()
}

/// An answer shows that the runtime works; the heartbeats show it for every loop outside of it.
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
    (status, Json(json!({ "ready": unready.is_empty(), "unready": unready }))).into_response()
}

async fn version(State(state): State<AdminState>) -> Response {
    Json(json!({ "name": state.program.name, "version": state.program.version })).into_response()
}
