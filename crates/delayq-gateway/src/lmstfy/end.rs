//! Ending jobs: one by id in any state, or all that are ready.

use super::ask::CheckedCall;
use super::ids;
use super::reply::{JobReply, Refusal, internal, nothing};
use crate::state::Unscoped;
use delayq::admin::PurgeWhat;
use delayq::protocol::{FinishOutcome, FinishWhich};
use delayq::{Settled, Target};
use std::slice;

pub(super) async fn delete(ask: &CheckedCall, id: &str) -> JobReply {
    // Before own ids: a receipt is a text like any. The id of a job needs no key, which Redis may have.
    if ids::read(id).is_none() {
        let signer = ask.app.unscoped().receipts.signer().await.map_err(internal)?;
        if let Some(receipt) = signer.read(id) {
            return match ask.app.unscoped().holder.ack(&[receipt]).await.remove(0).map_err(internal)? {
                Settled::Failed(why) => Err(internal(why)),
                _ => Ok(nothing()),
            };
        }
    }
    if let Some(target) = ask.target(id).await? {
        finish(ask, &target).await?;
    }
    Ok(nothing())
}

/// Ends a job in any state. Where the job waits in the spool, or Redis is unavailable, its end goes into the spool behind it.
pub(super) async fn finish(ask: &CheckedCall, target: &Target) -> Result<(), Refusal> {
    let Unscoped { producer, spool, .. } = ask.app.unscoped();
    let mut ended = producer.finish_many(ask.topic(), FinishWhich::Any, slice::from_ref(target)).await;
    match ended.pop().expect("each target has one answer") {
        Ok(FinishOutcome::Unknown) | Err(_) if spool.is_some() => {
            producer.cancel(ask.topic(), target).await.map(drop).map_err(internal)
        }
        Ok(FinishOutcome::Failed(why)) => Err(internal(why)),
        Ok(_) => Ok(()),
        Err(error) => Err(internal(error)),
    }
}

pub(super) async fn destroy(ask: &CheckedCall) -> JobReply {
    ask.app.unscoped().admin.topic(ask.topic()).purge(PurgeWhat::Ready, |_| {}).await.map_err(internal)?;
    Ok(nothing())
}
