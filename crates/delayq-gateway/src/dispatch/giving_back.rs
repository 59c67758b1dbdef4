//! Giving back messages that were reserved for a client that is gone. An unsent message is ready at once, and the attempt does not
//! count. An unsettled message of a stream is tried again after the back-off, as at the end of a lease.

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
pub(crate) struct Lost {
    receipts: Vec<Receipt>,
    fate: LostFate,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LostFate {
    /// No client has the message.
    Unsent,
    /// The client may have worked on the message.
    Unsettled,
}

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
    pub(super) fn unsent(messages: Vec<Reservation>) -> Self {
        let receipts = messages.into_iter().map(|message| message.receipt).collect();
        Self { receipts, fate: LostFate::Unsent }
    }

    pub(super) fn unsettled(receipts: Vec<Receipt>) -> Self {
        Self { receipts, fate: LostFate::Unsettled }
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
                    Some(Lost { receipts, fate }) => {
                        self.metrics.given_back(receipts.len());
                        tracing::debug!(messages = receipts.len(), "returned messages whose clients are gone");
                        for receipt in receipts {
                            queues.entry(places.node(receipt.shard)).or_default().waiting.push(Return::new(receipt, fate));
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
    fn new(receipt: Receipt, fate: LostFate) -> Self {
        let (delay, keep_attempt, reason) = match fate {
            LostFate::Unsent => (Some(Duration::ZERO), true, ""),
            LostFate::Unsettled => (None, false, "the stream ended at the last attempt"),
        };
        Self { release: Release { receipt, delay, keep_attempt, reason: reason.to_owned() }, tries: 0 }
    }

    fn again(self) -> Self {
        Self { tries: self.tries + 1, ..self }
    }
}
