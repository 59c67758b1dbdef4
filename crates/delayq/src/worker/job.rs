//! A message in the hands of a handler.

use crate::consumer::Received;
use std::ops::Deref;
use tokio_util::sync::CancellationToken;

/// A message in the hands of a handler. The lease is extended while the handler runs; the worker settles the message.
#[derive(Debug)]
pub struct Job {
    pub(super) received: Received,
    pub(super) lost: CancellationToken,
}

// === impl Job ===

impl Job {
    /// Resolves when the lease was taken back or the message was cancelled: abandon the work. Cancel safe.
    pub async fn lost(&self) {
        self.lost.cancelled().await;
    }
}

impl Deref for Job {
    type Target = Received;

    fn deref(&self) -> &Received {
        &self.received
    }
}
