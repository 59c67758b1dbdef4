//! The channel that a listener follows, and the topics that count the listener among their workers.

use delayq_core::id::Topic;
use delayq_core::keys::Channel;
use std::sync::Arc;

/// A channel of each shard, and topics.
#[derive(Clone, Debug)]
pub(crate) struct Followed {
    /// The channel of each shard.
    pub(crate) channel: Channel,
    /// The topics that count this listener among their workers.
    pub(crate) topics: Arc<[Topic]>,
}

// === impl Followed ===

impl From<Channel> for Followed {
    /// Follows the channel without being counted as a worker.
    fn from(channel: Channel) -> Self {
        Self { channel, topics: Arc::default() }
    }
}
