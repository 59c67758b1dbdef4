//! The time for which one Redis is the master, according to the sentinels.

use super::node::Node;
use tokio_util::sync::CancellationToken;

/// The time during which sentinels name the same master. Clones end together.
#[derive(Clone, Debug)]
pub(crate) struct Term {
    pub(super) master: Node,
    over: CancellationToken,
}

// === impl Term ===

impl Term {
    pub(super) fn new(master: Node) -> Self {
        Self { master, over: CancellationToken::new() }
    }

    pub(super) fn address(&self, service: &str) -> String {
        format!("{}, the master of {service}", self.master)
    }

    pub(super) fn end(&self) {
        self.over.cancel();
    }

    pub(super) fn is_over(&self) -> bool {
        self.over.is_cancelled()
    }

    /// Cancel safe.
    pub(crate) async fn over(&self) {
        self.over.cancelled().await;
    }
}
