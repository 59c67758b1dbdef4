//! Giving back what was reserved for a client that is gone: ready at once, and the attempt does not count.

use crate::metrics::GatewayMetrics;
use delayq::Advice;
use delayq::protocol::{Holder, Receipt, Release, Reservation};
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use std::collections::HashMap;
use std::time::Duration;
use tokio::sync::mpsc;

/// Pause between two tries while Redis is unavailable.
const REST: Duration = Duration::from_millis(200);
/// Maximum tries: by then, leases of the default length have ended.
const MAX_TRIES: u32 = 150;

#[derive(Debug)]
pub(crate) struct Lost(Vec<Receipt>);

pub(crate) struct GivingBack {
    pub(crate) holder: Holder,
    pub(crate) lost: mpsc::UnboundedReceiver<Lost>,
    pub(crate) metrics: GatewayMetrics,
}

struct Return {
    release: Release,
    tries: u32,
}

#[derive(Default)]
struct NodeReturns {
    waiting: Vec<Return>,
    /// A call is in flight, or rests.
    is_busy: bool,
}

// === impl Lost ===

impl Lost {
    pub(super) fn new(messages: Vec<Reservation>) -> Self {
        Self(messages.into_iter().map(|message| message.receipt).collect())
    }
}

// === impl GivingBack ===

impl GivingBack {
    /// Runs until nothing can be lost any more: the dispatcher has stopped, and every answer was sent or
    /// dropped. Each Redis has its own queue, so that a silent Redis holds up no message of another.
    pub(crate) async fn run(mut self) {
        let places = self.holder.places();
        let (mut queues, mut rounds) = (HashMap::<String, NodeReturns>::new(), FuturesUnordered::new());
        let mut is_open = true;
        while is_open || !rounds.is_empty() {
            tokio::select! {
                lost = self.lost.recv(), if is_open => match lost {
                    Some(Lost(receipts)) => {
                        self.metrics.given_back(receipts.len());
                        tracing::debug!(messages = receipts.len(), "returned messages whose clients are gone");
                        for receipt in receipts {
                            queues.entry(places.node(receipt.shard)).or_default().waiting.push(Return::new(receipt));
                        }
                    }
                    None => is_open = false,
                },
                Some((node, left)) = rounds.next(), if !rounds.is_empty() => {
                    let queue: &mut NodeReturns = queues.entry(node).or_default();
                    queue.is_busy = false;
                    queue.waiting.extend(left);
                }
            }
            queues.retain(|_, queue| queue.is_busy || !queue.waiting.is_empty());
            for (node, queue) in queues.iter_mut().filter(|(_, queue)| !queue.is_busy) {
                queue.is_busy = true;
                rounds.push(round(self.holder.clone(), node.clone(), std::mem::take(&mut queue.waiting)));
            }
        }
    }
}

/// Returns the messages to try again, after a rest.
async fn round(holder: Holder, node: String, returns: Vec<Return>) -> (String, Vec<Return>) {
    let releases: Vec<Release> = returns.iter().map(|back| back.release.clone()).collect();
    let answers = holder.release(&releases).await;
    let again = |(back, answer): (Return, Result<_, delayq::Error>)| {
        answer.is_err_and(|error| error.advice() == Advice::Retry).then(|| back.again())
    };
    let tried = returns.into_iter().zip(answers).filter_map(again);
    let (left, given_up): (Vec<Return>, Vec<Return>) = tried.partition(|back| back.tries < MAX_TRIES);
    if !given_up.is_empty() {
        tracing::warn!(
            messages = given_up.len(),
            "cannot return messages: they are delivered again when \
             their leases end"
        );
    }
    if !left.is_empty() {
        tokio::time::sleep(REST).await;
    }
    (node, left)
}

// === impl Return ===

impl Return {
    fn new(receipt: Receipt) -> Self {
        let release =
            Release { receipt, delay: Some(Duration::ZERO), keep_attempt: true, reason: String::new() };
        Self { release, tries: 0 }
    }

    fn again(self) -> Self {
        Self { tries: self.tries + 1, ..self }
    }
}
