//! What keeps the messages of a folder, for good: one Redis, a Redis Cluster, or several independent Redises.

use delayq::ShardCount;
use std::fmt;

/// Of a Redis Cluster, the shards for each master: slots are hashed, so that fewer would leave a master without any.
const SHARDS_A_MASTER: u16 = 4;

/// How many Redises there are, and whether they know each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Shape {
    /// One Redis.
    #[default]
    One,
    /// A Redis Cluster of so many masters.
    Cluster(u8),
    /// So many Redises, each with a part of the shards.
    Nodes(u8),
}

// === impl Shape ===

impl Shape {
    /// How many shards it has unless another number is named: each Redis has some.
    pub(super) fn shards(self) -> ShardCount {
        let count = match self {
            Self::One => return ShardCount::DEFAULT,
            Self::Cluster(masters) => u16::from(masters) * SHARDS_A_MASTER,
            Self::Nodes(nodes) => nodes.into(),
        };
        ShardCount::new(count).expect("there are a few Redises, and at least one")
    }

    /// How `delayq up` is asked for it; of one Redis, it is not.
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
