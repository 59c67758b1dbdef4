//! Dead letters: the oldest first.

use super::ask::CheckedCall;
use super::job::shown;
use super::look::sized;
use super::reply::{JobReply, Refusal, internal, nothing, said};
use delayq::Target;
use delayq::admin::{ListState, Listing, ReplayTerms, TimeRange};
use delayq::protocol::{FinishOutcome, FinishWhich};
use serde_json::json;
use std::time::Duration;

/// Seconds that a respawned job lives unless asked otherwise.
const TTL: i64 = 86_400;
const A_STEP: u64 = 500;

pub(super) async fn first(ask: &CheckedCall) -> JobReply {
    let head = oldest(ask, 1).await?.first().map(|target| shown(&target.id)).unwrap_or_default();
    let size = ask.app.unscoped().admin.topic(ask.topic()).count().await.map_err(internal)?.dead;
    let (namespace, queue) = (&ask.call.namespace, &ask.call.queue);
    let value =
        json!({ "deadletter_head": head, "deadletter_size": size, "namespace": namespace, "queue": queue });
    Ok(said(200, &value))
}

pub(super) async fn size(ask: &CheckedCall) -> JobReply {
    let numbers = ask.app.unscoped().admin.topic(ask.topic()).count().await.map_err(internal)?;
    Ok(sized(ask, numbers.dead))
}

pub(super) async fn respawn(ask: &CheckedCall) -> JobReply {
    let limit = ask.query.signed("limit", 1, 1)?;
    let ttl = ask.query.signed("ttl", TTL, 0)?;
    // The longest that Redis counts.
    let ttl = Duration::from_secs(ttl.min(u32::MAX.into()));
    let terms = ReplayTerms { max_attempts: 1, expires_after: Some(ttl).filter(|ttl| !ttl.is_zero()) };
    let mut respawned = 0;
    while respawned < limit {
        let some = oldest(ask, limit - respawned).await?;
        let replayed = ask
            .app
            .unscoped()
            .admin
            .topic(ask.topic())
            .replay_renewed(&some, terms)
            .await
            .map_err(internal)?;
        respawned += replayed.replayed;
        if replayed.replayed == 0 {
            break;
        }
    }
    ask.lmstfy.counters.respawned(&ask.pool, respawned);
    Ok(said(200, &json!({ "count": respawned, "msg": "respawned" })))
}

pub(super) async fn delete(ask: &CheckedCall) -> JobReply {
    let limit = ask.query.signed("limit", 1, 1)?;
    let mut left = limit;
    while left > 0 {
        let some = oldest(ask, left).await?;
        let ended = ask.app.unscoped().producer.finish_many(ask.topic(), FinishWhich::Dead, &some).await;
        let mut purged = 0;
        for outcome in ended {
            purged += u64::from(outcome.map_err(internal)? == FinishOutcome::Purged);
        }
        left -= purged;
        if purged == 0 {
            break;
        }
    }
    Ok(nothing())
}

async fn oldest(ask: &CheckedCall, max: u64) -> Result<Vec<Target>, Refusal> {
    let (topic, state, range) = (ask.topic(), ListState::Dead { newest_first: false }, TimeRange::ALL);
    let max = usize::try_from(max.min(A_STEP)).unwrap_or_default();
    let page = ask
        .app
        .unscoped()
        .admin
        .page(Listing::Topic { topic, state, range }, None, max)
        .await
        .map_err(internal)?;
    Ok(page.messages.iter().map(delayq::admin::Listed::target).collect())
}
