//! Looks at the process and its pools.

use super::ask::AdminRequest;
use crate::lmstfy::config::DEFAULT_POOL;
use crate::lmstfy::reply::{self, JobReply, error, indented, internal, said};
use crate::lmstfy::{exposition, names};
use axum::response::Response;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

/// By namespace.
pub(super) async fn info(ask: &AdminRequest) -> JobReply {
    let pool = ask.query.text("pool").filter(|pool| !pool.is_empty()).unwrap_or(DEFAULT_POOL);
    let Some(app) = ask.lmstfy.pools.get(pool) else { return Ok(reply::empty(200)) };
    let topics = app.unscoped().admin.topics().await.map_err(internal)?;
    let mut queues: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (namespace, queue) in topics.iter().filter_map(names::parts) {
        queues.entry(namespace).or_default().push(queue);
    }
    Ok(reply::typed(200, "text/plain", reply::indented_text(&json!(queues))))
}

pub(super) fn version() -> Response {
    let version = concat!("delayq ", env!("CARGO_PKG_VERSION"));
    indented(200, &json!({ "build_commit": "unknown", "build_date": "unknown", "version": version }))
}

pub(super) async fn metrics(ask: &AdminRequest) -> JobReply {
    let text = exposition::exposed(&ask.lmstfy).await.map_err(internal)?;
    Ok(reply::typed(200, "text/plain; version=0.0.4; charset=utf-8", text))
}

pub(super) fn pools(ask: &AdminRequest) -> Response {
    indented(200, &ask.lmstfy.pools.keys().map(String::as_str).collect::<Value>())
}

pub(super) fn access_log(ask: &AdminRequest) -> Response {
    let status = if ask.lmstfy.logs_access.load(Ordering::Relaxed) { "enabled" } else { "disabled" };
    said(200, &json!({ "status": status }))
}

pub(super) fn set_access_log(ask: &AdminRequest) -> JobReply {
    let logs = match ask.query.text("status") {
        Some("enable") => true,
        Some("disable") => false,
        _ => return Err(error(400, "invalid status")),
    };
    ask.lmstfy.logs_access.store(logs, Ordering::Relaxed);
    Ok(access_log(ask))
}
