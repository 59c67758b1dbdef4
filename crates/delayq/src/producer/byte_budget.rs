//! The byte budget of waiting and in-flight messages. Back-pressure: callers wait until the budget has room.

use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

#[derive(Clone, Debug)]
pub(super) struct ByteBudget {
    left: Arc<Semaphore>,
    bytes: u32,
}

/// ByteBudget that is taken until this value is dropped.
pub(super) type Taken = OwnedSemaphorePermit;

// === impl ByteBudget ===

impl ByteBudget {
    pub(super) fn new(bytes: u32) -> Self {
        Self { left: Arc::new(Semaphore::new(bytes as usize)), bytes }
    }

    /// In the order of the callers; a request larger than the budget takes the whole budget.
    pub(super) async fn take(&self, bytes: usize) -> Taken {
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX).min(self.bytes);
        let taken = Arc::clone(&self.left).acquire_many_owned(bytes).await;
        taken.expect("the semaphore is never closed")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    #[tokio::test]
    async fn who_comes_when_there_is_no_room_waits_and_what_is_too_large_takes_all() {
        let budget = ByteBudget::new(10);
        let six = budget.take(6).await;
        let mut seven = Box::pin(budget.take(7));
        assert!(seven.as_mut().now_or_never().is_none());
        drop(six);
        drop(seven.await);
        let all = budget.take(1_000_000).await;
        assert!(budget.take(1).now_or_never().is_none());
        drop(all);
        assert!(budget.take(1).now_or_never().is_some());
    }
}
