//! Giving back what was reserved for a client that is gone: ready at once, and the attempt does not count.

use crate::metrics::GatewayMetrics;
use delayq::Advice;
use delayq::protocol::{Holder, Receipt, Release, Reservation};
use std::time::Duration;
use tokio::sync::mpsc;

/// Pause between two tries while Redis is unavailable.
const REST: Duration = Duration::from_millis(200);
/// Maximum tries: by then, leases of the default length have ended.
const MAX_TRIES: u32 = 150;

/// Receipts of messages that reached no client.
#[derive(Debug)]
pub(crate) struct Lost(Vec<Receipt>);

/// Gives lost messages back.
pub(crate) struct GivingBack {
    pub(crate) holder: Holder,
    pub(crate) lost: mpsc::UnboundedReceiver<Lost>,
    pub(crate) metrics: GatewayMetrics,
}

// === impl Lost ===

impl Lost {
    pub(super) fn new(messages: Vec<Reservation>) -> Self {
        Self(messages.into_iter().map(|message| message.receipt).collect())
    }
}

// === impl GivingBack ===

impl GivingBack {
    /// Runs until nothing can be lost any more: the dispatcher has stopped, and every answer was sent or dropped.
    pub(crate) async fn run(mut self) {
        while let Some(Lost(mut receipts)) = self.lost.recv().await {
            while let Ok(Lost(more)) = self.lost.try_recv() {
                receipts.extend(more);
            }
            self.metrics.given_back(receipts.len());
            tracing::debug!(messages = receipts.len(), "given back: their clients are gone");
            self.give_back(receipts).await;
        }
    }

    async fn give_back(&self, receipts: Vec<Receipt>) {
        let release = |receipt| Release {
            receipt,
            delay: Some(Duration::ZERO),
            keep_attempt: true,
            reason: String::new(),
        };
        let mut left: Vec<Release> = receipts.into_iter().map(release).collect();
        for _ in 0..MAX_TRIES {
            let answers = self.holder.release(&left).await;
            let again = |answer: &Result<_, delayq::Error>| {
                answer.as_ref().is_err_and(|error| error.advice() == Advice::Retry)
            };
            let mut retries = answers.iter().map(again).collect::<Vec<_>>().into_iter();
            left.retain(|_| retries.next().unwrap_or(false));
            if left.is_empty() {
                return;
            }
            tokio::time::sleep(REST).await;
        }
        tracing::warn!(messages = left.len(), "not given back: they return when their leases end");
    }
}
