//! The number of a Redis that has shards.

/// The number of a Redis. An unknown node counts as the first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct NodeId(pub usize);
