//! The number of a Redis that has shards.

/// The number of a node; an unknown node counts as the first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct NodeId(pub(crate) usize);
