//! Shards or slots, grouped by node.

use crate::error::Error;
use crate::link::Link;
use std::sync::Arc;

/// Shards or slots by node, each given as an index into the input.
#[derive(Default)]
pub(crate) struct Grouped {
    /// Each node with the indices of the node's shards.
    pub(crate) nodes: Vec<(Arc<Link>, Vec<usize>)>,
    /// Shards without a known node: nothing can be sent.
    pub(crate) nowhere: Vec<(usize, Error)>,
}
