//! Shutdown: a value that is passed in, asked for once, and seen by every clone.

use tokio_util::sync::CancellationToken;

/// Whether this process is to stop.
#[derive(Clone, Debug, Default)]
pub struct Shutdown(CancellationToken);

// === impl Shutdown ===

impl Shutdown {
    /// Not asked for yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Asks everyone to stop; asking again changes nothing.
    pub fn request(&self) {
        self.0.cancel();
    }

    /// Whether it was asked for.
    #[must_use]
    pub fn is_requested(&self) -> bool {
        self.0.is_cancelled()
    }

    /// Returns once it is asked for, at once if it was. Safe to drop and to call again.
    pub async fn requested(&self) {
        self.0.cancelled().await;
    }

    /// A shutdown of a part: asked for with this one, or alone.
    #[must_use]
    pub fn part(&self) -> Self {
        Self(self.0.child_token())
    }

    /// Runs a future until it ends or shutdown is asked for, whichever is first; `None` is the latter.
    ///
    /// The future is dropped where it waits: give it only what may be dropped there.
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
