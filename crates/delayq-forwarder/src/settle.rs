//! Settling: telling Redis what becomes of a message after its delivery.

use crate::context::Context;
use delayq::protocol::{Receipt, Release};
use delayq::{Advice, Error, Settled};
use std::time::Duration;

/// What is to become of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It was delivered.
    Ack,
    /// It can never be delivered, for this reason.
    Bury(String),
    /// It is retried after this delay, or by its own back-off.
    Release { delay: Option<Duration>, keep_attempt: bool, reason: String },
}

/// Carries out verdicts, and repeats those that Redis did not answer: a repeat is safe, because the first one uses up the
/// receipt.
pub(crate) struct Settler<'a> {
    context: &'a Context,
}

#[derive(Default)]
struct Due {
    acks: Vec<Receipt>,
    buried: Vec<(Receipt, String)>,
    releases: Vec<Release>,
}

const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

// === impl Verdict ===

impl Verdict {
    /// Retried later, without costing an attempt.
    pub(crate) fn rest(delay: Duration, reason: &str) -> Self {
        Self::Release { delay: Some(delay), keep_attempt: true, reason: reason.to_owned() }
    }
}

// === impl Due ===

impl Due {
    fn count(&self) -> usize {
        self.acks.len() + self.buried.len() + self.releases.len()
    }
}

// === impl Settler ===

impl<'a> Settler<'a> {
    pub(crate) const fn new(context: &'a Context) -> Self {
        Self { context }
    }

    pub(crate) async fn settle(&self, verdicts: impl Iterator<Item = (Receipt, Verdict)>) {
        let mut due = Due::default();
        for (receipt, verdict) in verdicts {
            match verdict {
                Verdict::Ack => due.acks.push(receipt),
                Verdict::Bury(reason) => due.buried.push((receipt, reason)),
                Verdict::Release { delay, keep_attempt, reason } => {
                    due.releases.push(Release { receipt, delay, keep_attempt, reason });
                }
            }
        }
        let mut pause = FIRST_PAUSE;
        let Context { holder, give_up, .. } = self.context;
        loop {
            let answers = holder.ack(&due.acks).await;
            let acks = self.keep_failed(&mut due.acks, answers);
            let answers = holder.bury(&due.buried).await;
            let buried = self.keep_failed(&mut due.buried, answers);
            let answers = holder.release(&due.releases).await;
            let releases = self.keep_failed(&mut due.releases, answers);
            if !(acks || buried || releases) {
                return;
            }
            // While draining there is one more try; then the leases expire, and the messages are delivered again.
            if give_up.is_requested() {
                let left = due.count();
                tracing::warn!(left, "Redis does not answer: leaving these leases to expire");
                return;
            }
            let _ = give_up.or(tokio::time::sleep(pause)).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Keeps the items to retry. Returns whether there are any.
    fn keep_failed<T>(&self, items: &mut Vec<T>, answers: Vec<Result<Settled, Error>>) -> bool {
        self.context.stats.settled(answers.iter().flatten());
        if answers
            .iter()
            .all(|answer| matches!(answer, Ok(settled) if !matches!(settled, Settled::Failed(_))))
        {
            items.clear();
            return false;
        }
        let mut answers = answers.into_iter();
        items.retain(|_| match answers.next() {
            Some(Err(error)) if error.advice() == Advice::Retry => true,
            Some(Err(error)) => {
                tracing::error!(%error, "a message could not be settled: its lease will expire");
                false
            }
            Some(Ok(Settled::Failed(why))) => {
                tracing::error!(why, "a message could not be settled: its lease will expire");
                false
            }
            Some(Ok(_)) | None => false,
        });
        !items.is_empty()
    }
}
