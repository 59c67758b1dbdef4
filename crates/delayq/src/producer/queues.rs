//! The queues of a producer: one for puts without a wait, and another for each durability of a topic. Replicas that do
//! not confirm therefore only hold up callers that wait for replicas.

use super::byte_budget::ByteBudget;
use super::sending::Sender;
use super::waiting::Waiting;
use crate::calls::MAX_IDS_A_PIPELINE;
use crate::gather::Gathering;
use delayq_core::durability::Waits;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use tokio::sync::mpsc;

/// Pipelines in flight at once in each queue: one in Redis, the rest on the network.
const IN_FLIGHT: usize = 4;
/// Maximum bytes of messages in one pipeline, which a single message may exceed. [`IN_FLIGHT`] full pipelines have to
/// cross the network within the deadline of a call: 0.4 s at 100 Mbit/s.
const PIPELINE_BYTES: usize = 1 << 20;
/// Maximum bytes of waiting and in-flight messages in each queue; beyond that, callers have to wait.
const QUEUE_BYTES: u32 = 64 << 20;

/// The queues end with the producer's last clone.
pub(super) struct PutQueues {
    sender: Arc<Sender>,
    queues: Mutex<BTreeMap<Waits, PutQueue>>,
}

#[derive(Clone)]
pub(super) struct PutQueue {
    pub(super) sender: mpsc::UnboundedSender<Vec<Waiting>>,
    pub(super) budget: ByteBudget,
}

// === impl PutQueues ===

impl PutQueues {
    pub(super) fn new(sender: Sender) -> Self {
        let queues = Self { sender: Arc::new(sender), queues: Mutex::default() };
        queues.of(&Waits::NOTHING);
        queues
    }

    /// Starts the queue if necessary.
    pub(super) fn of(&self, waits: &Waits) -> PutQueue {
        let mut queues = self.queues.lock().expect("no code panics while holding the lock");
        if let Some(queue) = queues.get(waits) {
            return queue.clone();
        }
        let queue = self.start(waits.clone());
        queues.insert(waits.clone(), queue.clone());
        queue
    }

    fn start(&self, waits: Waits) -> PutQueue {
        let (queue, waiting) = mpsc::unbounded_channel();
        let (max_items, max_bytes) = (MAX_IDS_A_PIPELINE, PIPELINE_BYTES);
        let gathering = Gathering { max_items, max_bytes, in_flight: IN_FLIGHT };
        let sender = Arc::clone(&self.sender);
        tokio::spawn(async move { gathering.run(waiting, |gathered| sender.send(gathered, &waits)).await });
        PutQueue { sender: queue, budget: ByteBudget::new(QUEUE_BYTES) }
    }
}
