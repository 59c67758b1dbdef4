//! Number of ready records in the queue: asked from time to time, over a channel that nothing else uses.

use delayq_service::brokers::rabbitmq_queue;
use lapin::Channel;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::sleep;

const ASK_EVERY: Duration = Duration::from_secs(1);

/// The last answer. The queries end when the value is dropped.
pub(super) struct Ready {
    count: Arc<AtomicU32>,
    _asking: JoinSet<()>,
}

// === impl Ready ===

impl Ready {
    /// Begins with an answer that is there already.
    pub(super) fn start(channel: Channel, name: Arc<str>, first: u32) -> Self {
        let count = Arc::new(AtomicU32::new(first));
        let last = Arc::clone(&count);
        let mut asking = JoinSet::new();
        asking.spawn(async move {
            // An error is that of the connection, or of a queue that is deleted, which the consumer reports.
            while let Ok(queue) = rabbitmq_queue(&channel, &name).await {
                last.store(queue.message_count(), Ordering::Relaxed);
                sleep(ASK_EVERY).await;
            }
        });
        Self { count, _asking: asking }
    }

    pub(super) fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed).into()
    }
}
