//! Which of the Redises that have the shards.

/// The number of a node; one that was never told of is the first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct NodeId(pub(crate) usize);
