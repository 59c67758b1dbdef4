//! The channel that a listener follows, and the topics that count the listener among their workers.

use delayq_core::id::Topic;
use delayq_core::keys::Channel;
use std::sync::Arc;

#[derive(Clone, Debug)]
pub(crate) struct Followed {
    pub(crate) channel: Channel,
    /// The topics that count this listener among their workers.
    pub(crate) topics: Arc<[Topic]>,
}

// === impl Followed ===

impl From<Channel> for Followed {
    /// Does not count as a worker.
    fn from(channel: Channel) -> Self {
        Self { channel, topics: Arc::default() }
    }
}
