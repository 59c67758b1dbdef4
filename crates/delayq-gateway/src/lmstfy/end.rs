//! Ending jobs: one by id in any state, or all that are ready.

use super::ask::CheckedCall;
use super::reply::{JobReply, internal, nothing};
use delayq::Settled;
use delayq::admin::PurgeWhat;
use delayq::protocol::{FinishOutcome, FinishWhich};

pub(super) async fn delete(ask: &CheckedCall, id: &str) -> JobReply {
    // Before own ids: a receipt is a text like any.
    let signer = ask.app.unscoped().receipts.signer().await.map_err(internal)?;
    if let Some(receipt) = signer.read(id) {
        return match ask.app.unscoped().holder.ack(&[receipt]).await.remove(0).map_err(internal)? {
            Settled::Failed(why) => Err(internal(why)),
            _ => Ok(nothing()),
        };
    }
    let Some(target) = ask.target(id).await? else { return Ok(nothing()) };
    let ended =
        ask.app.unscoped().producer.finish_many(ask.topic(), FinishWhich::Any, &[target]).await.remove(0);
    match ended.map_err(internal)? {
        FinishOutcome::Failed(why) => Err(internal(why)),
        _ => Ok(nothing()),
    }
}

pub(super) async fn destroy(ask: &CheckedCall) -> JobReply {
    ask.app.unscoped().admin.topic(ask.topic()).purge(PurgeWhat::Ready, |_| {}).await.map_err(internal)?;
    Ok(nothing())
}
