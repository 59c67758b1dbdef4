//! Many items of many shards in as few round trips as the limits allow: one call for each group of items, and the
//! answers back in the order of the items.
//!
//! ```text
//! items ─by key─► batches of 500 ids and 4 MiB ─► calls ─► pipelines of 4,000 ids and 4 MiB ─► answers by item
//!                                                          one after the other
//! ```

use crate::calls::Calls;
use crate::error::Error;
use delayq_core::call::Call;
use delayq_core::limits::{MAX_BYTES_A_CALL, MAX_IDS_A_CALL};
use delayq_core::reply::{ReplyError, Value};
use std::collections::BTreeMap;

/// Maximum bytes of calls in one pipeline, which a single call may exceed: what has to cross the network within the
/// deadline of a call.
const MAX_BYTES_A_PIPELINE: usize = 4 * 1024 * 1024;

/// Maximum items in one pipeline: at 50 µs each, on a busy Redis, they take a tenth of the deadline of a call.
pub(crate) const MAX_IDS_A_PIPELINE: usize = 4000;

/// The items of one call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Batch<K> {
    pub(crate) key: K,
    /// Their places among all items, rising.
    pub(crate) items: Vec<usize>,
}

/// Groups items by what their call is about, within the limits of a call. Each item is its place, its key, and about how
/// many bytes it takes. Batches of one key keep the order of their items.
pub(crate) fn batches<K: Ord + Clone>(items: impl Iterator<Item = (usize, K, usize)>) -> Vec<Batch<K>> {
    let (mut full, mut open) = (Vec::new(), BTreeMap::<K, (Vec<usize>, usize)>::new());
    for (item, key, bytes) in items {
        let (some, taken) = open.entry(key.clone()).or_default();
        if some.len() == MAX_IDS_A_CALL || !some.is_empty() && *taken + bytes > MAX_BYTES_A_CALL {
            full.push(Batch { key, items: std::mem::take(some) });
            *taken = 0;
        }
        some.push(item);
        *taken += bytes;
    }
    full.extend(open.into_iter().map(|(key, (items, _))| Batch { key, items }));
    full
}

/// Sends one call for each batch: what became of each item, by its place.
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

/// Sends one call for each batch: one answer each, in order.
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

/// The answers in the order of the items, of which each was in one batch.
pub(crate) fn in_order<A>(answers: Vec<(usize, A)>) -> Vec<A> {
    let mut ordered: Vec<Option<A>> = answers.iter().map(|_| None).collect();
    for (item, answer) in answers {
        ordered[item] = Some(answer);
    }
    ordered.into_iter().map(|answer| answer.expect("every item is in one batch")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_of_one_key_go_together_in_order_within_the_limits_of_a_call() {
        let all = batches((0..1200).map(|item| (item, item % 2, 10)));
        let sizes: Vec<(usize, usize)> = all.iter().map(|batch| (batch.key, batch.items.len())).collect();
        assert_eq!(sizes, [(0, 500), (1, 500), (0, 100), (1, 100)]);
        assert!(all.iter().all(|batch| batch.items.is_sorted()));
        let large = batches((0..3).map(|item| (item, (), MAX_BYTES_A_CALL - 1)));
        assert_eq!(large.len(), 3);
        let oversized = batches(std::iter::once((0, (), MAX_BYTES_A_CALL + 1)));
        assert_eq!(oversized, [Batch { key: (), items: vec![0] }]);
    }

    #[test]
    fn answers_come_back_in_the_order_of_the_items() {
        assert_eq!(in_order(vec![(2, 'c'), (0, 'a'), (1, 'b')]), ['a', 'b', 'c']);
    }
}
