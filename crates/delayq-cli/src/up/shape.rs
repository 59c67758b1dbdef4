//! What keeps the messages of a folder, for good: one Redis, a Redis Cluster, or several independent Redises.

use std::fmt;

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
