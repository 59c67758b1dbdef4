//! Looking at queues and jobs.

use super::ask::CheckedCall;
use super::job::Job;
use super::reply::{JobReply, error, internal, said};
use delayq::State;
use delayq::admin::{ListState, Listing, TimeRange};
use serde_json::json;

pub(super) async fn first(ask: &CheckedCall) -> JobReply {
    let (topic, state, range) = (ask.topic(), ListState::Ready, TimeRange::ALL);
    let page = ask
        .app
        .unscoped()
        .admin
        .page(Listing::Topic { topic, state, range }, None, 1)
        .await
        .map_err(internal)?;
    let first = page.messages.first().ok_or_else(|| error(404, "the queue is empty"))?;
    let envelope = first.envelope.as_ref().map_err(internal)?;
    Ok(said(200, &Job::first(first, envelope)))
}

pub(super) async fn job(ask: &CheckedCall, id: &str) -> JobReply {
    let unknown = || error(404, "job not found");
    let target = ask.target(id).await?.ok_or_else(unknown)?;
    let listed = ask
        .app
        .unscoped()
        .admin
        .topic(ask.topic())
        .get(&target)
        .await
        .map_err(internal)?
        .ok_or_else(unknown)?;
    let envelope = listed.envelope.as_ref().map_err(internal)?;
    if envelope.state as u8 > State::Dead as u8 {
        return Err(unknown());
    }
    Ok(said(200, &Job::found(&listed, envelope)))
}

pub(super) async fn size(ask: &CheckedCall) -> JobReply {
    let numbers = ask.app.unscoped().admin.topic(ask.topic()).count().await.map_err(internal)?;
    Ok(sized(ask, numbers.ready))
}

pub(super) fn sized(ask: &CheckedCall, size: u64) -> axum::response::Response {
    said(200, &json!({ "namespace": ask.call.namespace, "queue": ask.call.queue, "size": size }))
}
