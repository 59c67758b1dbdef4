//! The records that were handed out and are not acked. The server delivers one again that it hears nothing of for a while, so
//! it is told of those that take long.

use async_nats::{Client, Subject};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::task::AbortHandle;
use tokio::time::{MissedTickBehavior, interval};

/// Where each is acked, by its sequence number in the stream; the server is told until this is dropped.
pub(super) struct Outstanding {
    replies: Replies,
    telling: AbortHandle,
}

type Replies = Arc<Mutex<BTreeMap<u64, (Subject, Instant)>>>;

// === impl Outstanding ===

impl Outstanding {
    /// `patience`: how long the server waits for a sign of a record.
    pub(super) fn start(client: &Client, patience: Duration) -> Self {
        let replies = Replies::default();
        let telling = tokio::spawn(tell(client.clone(), replies.clone(), patience / 3)).abort_handle();
        Self { replies, telling }
    }

    /// Notes a record that arrived; false if it is here already.
    pub(super) fn add(&self, sequence: u64, reply: Subject) -> bool {
        lock(&self.replies).insert(sequence, (reply, Instant::now())).is_none()
    }

    /// Where a record is acked; it is no longer told of.
    pub(super) fn take(&self, sequence: u64) -> Option<Subject> {
        lock(&self.replies).remove(&sequence).map(|(reply, _)| reply)
    }

    pub(super) fn count(&self) -> usize {
        lock(&self.replies).len()
    }
}

impl Drop for Outstanding {
    fn drop(&mut self) {
        self.telling.abort();
    }
}

async fn tell(client: Client, replies: Replies, every: Duration) {
    let mut ticks = interval(every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let old: Vec<Subject> = lock(&replies)
            .values()
            .filter(|(_, since)| since.elapsed() >= every)
            .map(|(reply, _)| reply.clone())
            .collect();
        for reply in old {
            // Where this fails the connection is gone, which its reader reports.
            let _ = client.publish(reply, "+WPI".into()).await;
        }
    }
}

fn lock(
    replies: &Mutex<BTreeMap<u64, (Subject, Instant)>>,
) -> MutexGuard<'_, BTreeMap<u64, (Subject, Instant)>> {
    // It changes by one insert or remove.
    replies.lock().unwrap_or_else(PoisonError::into_inner)
}
