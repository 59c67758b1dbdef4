//! Notices of producers about new rows, if the database supports notices.

use std::sync::Arc;
use tokio::sync::Notify;

/// Wakes the reader.
#[derive(Clone, Debug, Default)]
pub(super) struct Notices(Arc<Notify>);

// === impl Notices ===

impl Notices {
    /// There may be new rows.
    #[cfg(feature = "postgres")]
    pub(super) fn tell(&self) {
        self.0.notify_one();
    }

    /// Waits for new rows; for ever where nobody tells.
    pub(super) async fn next(&self) {
        self.0.notified().await;
    }
}
