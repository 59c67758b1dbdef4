//! Shutdown: a value passed to every task, requested once, and seen by every clone.

use tokio_util::sync::CancellationToken;

/// The request to stop this process.
#[derive(Clone, Debug, Default)]
pub struct Shutdown(CancellationToken);

// === impl Shutdown ===

impl Shutdown {
    /// A shutdown not yet requested.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Asks every task to stop. Idempotent.
    pub fn request(&self) {
        self.0.cancel();
    }

    /// True once requested.
    #[must_use]
    pub fn is_requested(&self) -> bool {
        self.0.is_cancelled()
    }

    /// Waits for the request. Cancel safe.
    pub async fn requested(&self) {
        self.0.cancelled().await;
    }

    /// A child shutdown: requested with this one, or alone.
    #[must_use]
    pub fn part(&self) -> Self {
        Self(self.0.child_token())
    }

    /// Runs a future until its end or until shutdown. Shutdown drops the future at its await and returns `None`.
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
