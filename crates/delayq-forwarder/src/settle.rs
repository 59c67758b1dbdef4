//! Settling: reports the result of a delivery to Redis.

use crate::context::Context;
use delayq::protocol::{Receipt, Release, ShardId};
use delayq::{Advice, Error, Settled};
use std::time::{Duration, Instant};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Ack,
    Bury(String),
    /// Retried after this delay, or after the policy's back-off.
    Release {
        delay: Option<Duration>,
        keep_attempt: bool,
        reason: String,
    },
}

const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

// === impl Verdict ===

impl Verdict {
    /// Costs no attempt.
    pub(crate) fn rest(delay: Duration, reason: &str) -> Self {
        Self::Release { delay: Some(delay), keep_attempt: true, reason: reason.to_owned() }
    }
}

/// Repeats verdicts that Redis did not answer. A repeat is safe: the first settlement uses up the receipt.
pub(crate) async fn settle(context: &Context, verdicts: impl Iterator<Item = (Receipt, Verdict)>) {
    let (mut acks, mut buried, mut releases) = (Vec::new(), Vec::new(), Vec::new());
    for (receipt, verdict) in verdicts {
        match verdict {
            Verdict::Ack => acks.push(receipt),
            Verdict::Bury(reason) => buried.push((receipt, reason)),
            Verdict::Release { delay, keep_attempt, reason } => {
                releases.push(Release { receipt, delay, keep_attempt, reason });
            }
        }
    }
    let mut pause = FIRST_PAUSE;
    let Context { holder, give_up, .. } = context;
    loop {
        acks = to_retry(context, holder.ack(&acks).await, acks, |receipt| receipt.shard);
        buried = to_retry(context, holder.bury(&buried).await, buried, |(receipt, _)| receipt.shard);
        let released = holder.release(&releases).await;
        releases = to_retry(context, released, releases, |release| release.receipt.shard);
        let left = acks.len() + buried.len() + releases.len();
        if left == 0 {
            return;
        }
        // A drain allows one more try; then the leases expire, and the messages are delivered again.
        if give_up.is_requested() {
            tracing::warn!(left, "no reply from Redis: leaving these leases to expire");
            return;
        }
        let _ = give_up.or(tokio::time::sleep(pause)).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

fn to_retry<T>(
    context: &Context,
    answers: Vec<Result<Settled, Error>>,
    mut items: Vec<T>,
    shard_of: fn(&T) -> ShardId,
) -> Vec<T> {
    context.stats.settled(answers.iter().flatten());
    let (mut answers, mut progress, now) = (answers.into_iter(), context.progress(), Instant::now());
    items.retain(|item| {
        let answer = answers.next();
        let taken = matches!(&answer, Some(Ok(settled)) if !matches!(settled, Settled::Failed(_)));
        progress.settled(shard_of(item), taken, now);
        match answer {
            Some(Err(error)) if error.advice() == Advice::Retry => true,
            Some(Err(error)) => {
                tracing::error!(%error, "cannot settle a message: its lease will expire");
                false
            }
            Some(Ok(Settled::Failed(why))) => {
                tracing::error!(why, "cannot settle a message: its lease will expire");
                false
            }
            Some(Ok(_)) | None => false,
        }
    });
    items
}
