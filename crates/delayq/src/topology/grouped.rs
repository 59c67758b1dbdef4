//! Shards or slots, grouped by node.

use crate::error::Error;
use crate::link::Link;
use std::sync::Arc;

/// Shards or slots are indices into the input.
#[derive(Default)]
pub(crate) struct Grouped {
    pub(crate) nodes: Vec<(Arc<Link>, Vec<usize>)>,
    /// Nothing can be sent there.
    pub(crate) nowhere: Vec<(usize, Error)>,
}
