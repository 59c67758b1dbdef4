//! The shape of a folder's message storage, for good: a single Redis, a Redis Cluster, or several independent Redises.

use delayq::ShardCount;
use std::fmt;

/// Shards for each master of a Redis Cluster: slots are hashed, so that fewer shards would leave a master without any.
const SHARDS_A_MASTER: u16 = 4;

/// The number of Redises, and whether the Redises know each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Shape {
    /// A single Redis.
    #[default]
    One,
    /// A Redis Cluster with this number of masters.
    Cluster(u8),
    /// This number of independent Redises, each with a part of the shards.
    Nodes(u8),
}

// === impl Shape ===

impl Shape {
    /// Default number of shards: each Redis has some.
    pub(super) fn shards(self) -> ShardCount {
        let count = match self {
            Self::One => return ShardCount::DEFAULT,
            Self::Cluster(masters) => u16::from(masters) * SHARDS_A_MASTER,
            Self::Nodes(nodes) => nodes.into(),
        };
        ShardCount::new(count).expect("the number of Redises is small and not zero")
    }

    /// The option of `delayq up` that asks for this shape; `None` for a single Redis.
    pub(super) fn option(self) -> Option<String> {
        match self {
            Self::One => None,
            Self::Cluster(masters) => Some(format!("--redis-cluster {masters}")),
            Self::Nodes(nodes) => Some(format!("--redis-nodes {nodes}")),
        }
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::One => f.write_str("one Redis"),
            Self::Cluster(masters) => write!(f, "a cluster of {masters} masters"),
            Self::Nodes(nodes) => write!(f, "{nodes} independent Redises"),
        }
    }
}
