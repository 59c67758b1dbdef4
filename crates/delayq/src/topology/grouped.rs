//! Shards, or their slots, by the nodes that have them.

use crate::error::Error;
use crate::link::Link;
use std::sync::Arc;

/// Where some shards or slots are, each named by its place among them.
#[derive(Default)]
pub(crate) struct Grouped {
    /// Each node that has some, and which.
    pub(crate) nodes: Vec<(Arc<Link>, Vec<usize>)>,
    /// Those that no node has, or of which none says who has them: nothing can be sent there.
    pub(crate) nowhere: Vec<(usize, Error)>,
}
