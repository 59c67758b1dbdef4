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

/// Maximum bytes of calls in one pipeline, except that a single call may be larger: these bytes have to cross the
/// network within the deadline of a call.
const MAX_BYTES_A_PIPELINE: usize = 4 * 1024 * 1024;

/// Maximum items in one pipeline: at 50 µs each, on a busy Redis, 4,000 items take a tenth of the deadline of a call.
pub(crate) const MAX_IDS_A_PIPELINE: usize = 4000;

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

/// Returns each item's result with the item's index.
pub(crate) async fn scatter<K, A>(
    to: &Calls,
    batches: &[Batch<K>],
    request: impl Fn(&Batch<K>) -> Call,
    read: impl Fn(&Batch<K>, Value) -> Result<Vec<A>, ReplyError>,
) -> Vec<(usize, Result<A, Error>)> {
    let mut answers = Vec::new();
    for (batch, answer) in batches.iter().zip(scatter_batches(to, batches, request, read).await) {
        let items = batch.items.iter().copied();
        match answer {
            Ok(found) => answers.extend(items.zip(found.into_iter().map(Ok))),
            Err(error) => answers.extend(items.map(|item| (item, Err(error.clone())))),
        }
    }
    answers
}

/// Returns one answer for each batch, in order.
pub(crate) async fn scatter_batches<K, A>(
    to: &Calls,
    batches: &[Batch<K>],
    request: impl Fn(&Batch<K>) -> Call,
    read: impl Fn(&Batch<K>, Value) -> Result<A, ReplyError>,
) -> Vec<Result<A, Error>> {
    let (mut answers, mut sent, mut next) = (Vec::with_capacity(batches.len()), batches, None);
    while !sent.is_empty() {
        let (mut calls, mut bytes, mut ids) = (Vec::new(), 0, 0);
        while let Some(batch) = sent.get(calls.len()) {
            let call = next.take().unwrap_or_else(|| request(batch));
            bytes += call.bytes();
            ids += batch.items.len();
            let is_full = bytes > MAX_BYTES_A_PIPELINE || ids > MAX_IDS_A_PIPELINE;
            if is_full && !calls.is_empty() {
                next = Some(call);
                break;
            }
            calls.push(call);
        }
        let (now, later) = sent.split_at(calls.len());
        let replies = now.iter().zip(to.send_all(calls).await);
        answers.extend(replies.map(|(batch, reply)| Ok(read(batch, reply?)?)));
        sent = later;
    }
    answers
}
