//! Looking at a queue, without receiving.

use super::config::SqsIntakeConfig;
use super::queue::Queue;
use crate::intake::look::{IntakeFault, IntakeLook};
use delayq_service::brokers::{Blame, Outcome, SqsFault};

/// Looks at the queue and the queue of the dead records. SQS does not tell who receives, but how many records are held.
pub(crate) async fn look(config: &SqsIntakeConfig, dead: &str) -> Result<IntakeLook, IntakeFault> {
    let queue = Queue::open(config.clone(), "delayq-look", dead).await.map_err(fault)?;
    let (waiting, held) = queue.counts().await.map_err(fault)?;
    let reader = match (waiting, held) {
        (0, 0) => Some("an unknown number of compensators".to_owned()),
        (_, 0) => None,
        (_, held) => Some(format!("the holders of {held} records")),
    };
    Ok(IntakeLook { lag: waiting + held, lost: 0, reader })
}

#[allow(clippy::needless_pass_by_value, reason = "the shape that map_err wants")]
fn fault(fault: SqsFault) -> IntakeFault {
    match &fault.outcome {
        Outcome::Unavailable { blame: Blame::Unclear, .. } | Outcome::Rejected { .. } => {
            IntakeFault::Unusable(fault.to_string())
        }
        _ => IntakeFault::Unreachable(fault.to_string()),
    }
}
