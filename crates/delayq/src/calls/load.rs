//! What rides to the shards: items that share calls.

use super::grouping::Batch;
use super::next::{Again, Write};
use crate::error::Error;
use delayq_core::call::Call;
use delayq_core::layout::CallerLayout;
use delayq_core::reply::{ReplyError, Value};
use delayq_core::shard::ShardId;

/// Items that are sent together, and what takes in their answers.
///
/// # Contract
/// Each item is answered once: by [`Self::read`], which returns those that continue to their next shard instead, or by
/// [`Self::fail`].
pub(crate) trait Load: Send {
    /// What the items of one call have in common.
    type Key: Ord + Clone + Send + Sync;

    /// What the next call of an item is about, and about how many bytes it takes there.
    fn next_call(&self, item: usize) -> (Self::Key, usize);

    /// The call of these items.
    fn call(&mut self, batch: &Batch<Self::Key>) -> Call;

    /// Takes in an answer; returns the items that continue to their next shard.
    fn read(&mut self, batch: &Batch<Self::Key>, reply: Value) -> Result<Vec<usize>, ReplyError>;

    /// Takes in why an item was not carried out at this shard.
    fn fail(&mut self, item: usize, shard: ShardId, error: Error);

    /// Why nothing is sent to a shard now.
    fn outage(&self, _shard: ShardId) -> Option<Error> {
        None
    }

    /// What may be done about an item that failed.
    fn write(&self, _item: usize) -> Write {
        Write::default()
    }

    /// Prepares an item to be sent again so. Returns whether it can be.
    fn change(&mut self, _item: usize, _again: Again, _error: &Error, _known: &CallerLayout) -> bool {
        false
    }

    /// Prepares items for their next call: returns those that are to be sent.
    fn prepare(&mut self, items: Vec<usize>) -> impl Future<Output = Vec<usize>> + Send {
        std::future::ready(items)
    }
}
