//! The wanted parts of a look.

use delayq::Topic;

/// The wanted parts of a look. Every look asks each shard for its overview: one round trip a node.
#[derive(Clone, Copy, Debug, Default)]
pub struct Want<'w> {
    /// The Redis servers, and their sentinels.
    pub servers: bool,
    /// The layout, the number of messages and the node of each shard.
    pub layouts: bool,
    /// The number of shards without a listening timer.
    pub listeners: bool,
    /// The timers by etcd, if the deployment uses etcd.
    pub fleet: bool,
    /// The members of etcd, if the deployment uses etcd.
    pub etcd: bool,
    /// The other deployments in this Redis, if this one is missing: a walk over all keys.
    pub others: bool,
    /// The topics to count.
    pub topics: Which<'w>,
    /// The policies of the counted topics.
    pub policies: bool,
}

/// The topics to count.
#[derive(Clone, Copy, Debug, Default)]
pub enum Which<'w> {
    /// None, and no names.
    #[default]
    None,
    /// Every topic, or this many by name.
    All(Option<usize>),
    /// The named topics.
    Only(&'w [Topic]),
}

// === impl Want ===

impl Want<'_> {
    /// Every part that the judge reads.
    pub const JUDGED: Self = Self {
        servers: true,
        layouts: true,
        listeners: true,
        fleet: true,
        etcd: true,
        others: true,
        topics: Which::All(None),
        policies: true,
    };
}
