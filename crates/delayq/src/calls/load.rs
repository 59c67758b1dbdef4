//! The load of a ride: items that share calls.

use super::grouping::Batch;
use super::next::{Again, Write};
use crate::error::Error;
use delayq_core::call::Call;
use delayq_core::layout::CallerLayout;
use delayq_core::reply::{ReplyError, Value};
use delayq_core::shard::ShardId;

/// Items that are sent together, with the receiver of the answers.
///
/// # Contract
/// Each item is answered once: by [`Self::fail`], or by [`Self::read`] unless [`Self::read`] returns the item to
/// continue to the next shard.
pub(crate) trait Load: Send {
    type Key: Ord + Clone + Send + Sync;

    /// Returns the key of an item's next call, and about how many bytes the item takes there.
    fn next_call(&self, item: usize) -> (Self::Key, usize);

    /// Makes the call of these items.
    fn call(&mut self, batch: &Batch<Self::Key>) -> Call;

    /// Receives the answer to a call. Returns the items that continue to the next shard.
    fn read(&mut self, batch: &Batch<Self::Key>, reply: Value) -> Result<Vec<usize>, ReplyError>;

    /// Receives the error of an item at this shard.
    fn fail(&mut self, item: usize, shard: ShardId, error: Error);

    /// Returns why nothing may be sent to a shard now.
    fn outage(&self, _shard: ShardId) -> Option<Error> {
        None
    }

    /// Returns which repeats a failed item allows.
    fn write(&self, _item: usize) -> Write {
        Write::default()
    }

    /// Changes an item before a repeat. Returns whether the repeat is possible.
    fn change(&mut self, _item: usize, _again: Again, _error: &Error, _known: &CallerLayout) -> bool {
        false
    }

    /// Prepares items for the next call. Returns the items to send.
    fn prepare(&mut self, items: Vec<usize>) -> impl Future<Output = Vec<usize>> + Send {
        std::future::ready(items)
    }
}
