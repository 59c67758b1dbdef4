//! Grouping items into calls by key. Pure.

use delayq_core::limits::{MAX_BYTES_A_CALL, MAX_IDS_A_CALL};
use std::collections::BTreeMap;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Batch<K> {
    pub(crate) key: K,
    /// Indices among all items, ascending.
    pub(crate) items: Vec<usize>,
}

/// Items are given as index, key, and approximate size in bytes. Batches of one key keep the order of their items.
pub(super) fn batches<K: Ord + Clone>(items: impl Iterator<Item = (usize, K, usize)>) -> Vec<Batch<K>> {
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

/// Each item was in exactly one batch.
pub(super) fn in_order<A>(answers: Vec<(usize, A)>) -> Vec<A> {
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
