//! Shutdown: a value that is passed in, requested once, and seen by every clone.

use tokio_util::sync::CancellationToken;

/// Whether this process is to stop.
#[derive(Clone, Debug, Default)]
pub struct Shutdown(CancellationToken);

// === impl Shutdown ===

impl Shutdown {
    /// Not requested yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Asks every task to stop. Idempotent.
    pub fn request(&self) {
        self.0.cancel();
    }

    /// Whether it was requested.
    #[must_use]
    pub fn is_requested(&self) -> bool {
        self.0.is_cancelled()
    }

    /// Waits until it is requested. Cancel safe.
    pub async fn requested(&self) {
        self.0.cancelled().await;
    }

    /// A shutdown of a part: requested with this one, or alone.
    #[must_use]
    pub fn part(&self) -> Self {
        Self(self.0.child_token())
    }

    /// Runs a future until it ends, or until shutdown: then it is dropped at its await, and this is `None`.
    pub async fn or<F: Future>(&self, future: F) -> Option<F::Output> {
        self.0.run_until_cancelled(future).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_part_stops_with_the_whole_but_not_the_whole_with_a_part() {
        let (whole, other) = (Shutdown::new(), Shutdown::new());
        let part = whole.part();
        part.request();
        assert!(part.is_requested() && !whole.is_requested());
        let part = whole.part();
        whole.clone().request();
        part.requested().await;
        assert_eq!(part.or(std::future::pending::<()>()).await, None);
        assert_eq!(other.or(async { 7 }).await, Some(7));
    }
}
