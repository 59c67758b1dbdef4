//! Many items of many shards in as few round trips as the limits allow: one call for each group of items, with the
//! answers in the order of the items.
//!
//! ```text
//! items ─by key─► batches of 500 ids and 4 MiB ─► calls ─► pipelines of 4,000 ids and 4 MiB ─► answers by item
//!                                                          one after the other
//! ```

use super::grouping::{Batch, batches};
use super::load::Load;
use super::ride::{Ride, Rules};
use super::way::Calls;
use crate::error::Error;
use delayq_core::call::Call;
use delayq_core::reply::{ReplyError, Value};
use delayq_core::shard::ShardId;

/// Maximum bytes of calls in one pipeline, except that a single call may be larger: these bytes have to cross the
/// network within the deadline of a call.
const MAX_BYTES_A_PIPELINE: usize = 4 * 1024 * 1024;

/// Maximum items in one pipeline: at 50 µs each, on a busy Redis, 4,000 items take a tenth of the deadline of a call.
pub(crate) const MAX_IDS_A_PIPELINE: usize = 4000;

/// Items that stay in their shard.
pub(super) struct Scattered<K, A, R, D> {
    /// The key of each item, and about how many bytes the item takes in a call.
    keyed: Vec<(K, usize)>,
    request: R,
    read: D,
    answers: Vec<Option<Result<A, Error>>>,
}

/// Uses as few pipelines as the limits allow; each pipeline has a separate deadline.
pub(crate) async fn carry<L: Load>(to: &Calls, load: &mut L, items: usize) {
    let keyed = (0..items).map(|item| {
        let (key, bytes) = load.next_call(item);
        (item, key, bytes)
    });
    let (mut now, mut bytes) = (Vec::new(), 0);
    for batch in batches(keyed) {
        let more: usize = batch.items.iter().map(|&item| load.next_call(item).1).sum();
        let is_full =
            bytes + more > MAX_BYTES_A_PIPELINE || now.len() + batch.items.len() > MAX_IDS_A_PIPELINE;
        if is_full && !now.is_empty() {
            Ride::new(to, Rules::once(to), std::mem::take(&mut now)).finish(load).await;
            bytes = 0;
        }
        now.extend(batch.items);
        bytes += more;
    }
    Ride::new(to, Rules::once(to), now).finish(load).await;
}

/// Items are given as key and approximate size in bytes. `read` returns one answer for each item of the batch. Returns
/// one answer for each item, in order.
pub(crate) async fn scatter<K, A>(
    to: &Calls,
    keyed: Vec<(K, usize)>,
    request: impl FnMut(&Batch<K>) -> Call + Send,
    read: impl FnMut(&Batch<K>, Value) -> Result<Vec<A>, ReplyError> + Send,
) -> Vec<Result<A, Error>>
where
    K: Ord + Clone + Send + Sync,
    A: Send,
{
    let (items, mut load) = (keyed.len(), Scattered::new(keyed, request, read));
    carry(to, &mut load, items).await;
    load.answers()
}

// === impl Scattered ===

impl<K, A, R, D> Scattered<K, A, R, D> {
    pub(super) fn new(keyed: Vec<(K, usize)>, request: R, read: D) -> Self {
        let answers = keyed.iter().map(|_| None).collect();
        Self { keyed, request, read, answers }
    }

    pub(super) fn answers(self) -> Vec<Result<A, Error>> {
        self.answers.into_iter().map(|answer| answer.expect("each item is answered")).collect()
    }
}

impl<K, A, R, D> Load for Scattered<K, A, R, D>
where
    K: Ord + Clone + Send + Sync,
    A: Send,
    R: FnMut(&Batch<K>) -> Call + Send,
    D: FnMut(&Batch<K>, Value) -> Result<Vec<A>, ReplyError> + Send,
{
    type Key = K;

    fn next_call(&self, item: usize) -> (K, usize) {
        self.keyed[item].clone()
    }

    fn call(&mut self, batch: &Batch<K>) -> Call {
        (self.request)(batch)
    }

    fn read(&mut self, batch: &Batch<K>, reply: Value) -> Result<Vec<usize>, ReplyError> {
        for (&item, answer) in batch.items.iter().zip((self.read)(batch, reply)?) {
            self.answers[item] = Some(Ok(answer));
        }
        Ok(Vec::new())
    }

    fn fail(&mut self, item: usize, _shard: ShardId, error: Error) {
        self.answers[item] = Some(Err(error));
    }
}
