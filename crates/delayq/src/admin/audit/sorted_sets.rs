//! Reads sorted sets page by page: many small sets at a time, and large sets one by one.

use super::paced_calls::PacedCalls;
use crate::error::Error;
use delayq_core::shard::ShardId;
use redis::{Cmd, FromRedisValue, Pipeline, Value, from_redis_value};
use std::collections::VecDeque;
use std::iter;
use std::ops::Range;

/// Entries that are read in one call: for about half a millisecond.
pub(super) const ENTRIES_A_PAGE: usize = 1000;
/// Sets that are read in one call, and the number of entries of each set; further entries are read page by page.
const SETS_A_CALL: usize = 50;
const FIRST_ENTRIES: usize = ENTRIES_A_PAGE / SETS_A_CALL;

/// A walk over the entries of sorted sets, named by position in a list.
#[derive(Debug, Default)]
pub(super) struct SortedSetPages {
    waiting: VecDeque<usize>,
    large: VecDeque<Large>,
}

/// A set that is not finished.
#[derive(Debug)]
struct Large {
    set: usize,
    /// The last entry that was read.
    last: Vec<u8>,
    /// The position of the next page, up to the number of entries that the set had at first. Later entries are left to
    /// the next walk, because a walk under load would not end otherwise.
    left: Range<usize>,
}

// === impl SortedSetPages ===

impl SortedSetPages {
    pub(super) fn begin(&mut self, sets: impl Iterator<Item = usize>) {
        self.waiting.extend(sets);
    }

    pub(super) fn is_over(&self) -> bool {
        self.waiting.is_empty() && self.large.is_empty()
    }

    /// Stops reading, and returns the unfinished sets.
    pub(super) fn stop(&mut self) -> impl Iterator<Item = usize> {
        self.waiting.drain(..).chain(self.large.drain(..).map(|large| large.set))
    }

    /// Reads the next entries, by set. Entries that leave a set meanwhile may hide other entries. Safe to repeat after
    /// an error.
    ///
    /// # Errors
    /// Redis cannot be used.
    pub(super) async fn next(
        &mut self,
        redis: &mut PacedCalls,
        sets: &[(ShardId, Vec<u8>)],
    ) -> Result<Vec<(usize, Vec<Vec<u8>>)>, Error> {
        let Some(large) = self.large.front_mut() else { return self.first_pages(redis, sets).await };
        let (shard, index) = &sets[large.set];
        let end = large.left.end.min(large.left.start + ENTRIES_A_PAGE);
        let mut page = redis.page(*shard, index, large.left.start..end).await?;
        let is_through = end == large.left.end || page.len() < end - large.left.start;
        let set = large.set;
        large.left.start = end;
        // Entries that arrived before the last entry have moved it into this page.
        if let Some(again) = page.iter().position(|entry| *entry == large.last) {
            page.drain(..=again);
        }
        large.last = page.last().cloned().unwrap_or_default();
        if is_through {
            self.large.pop_front();
        }
        Ok(vec![(set, page)])
    }

    async fn first_pages(
        &mut self,
        redis: &mut PacedCalls,
        sets: &[(ShardId, Vec<u8>)],
    ) -> Result<Vec<(usize, Vec<Vec<u8>>)>, Error> {
        let Some(&first) = self.waiting.front() else { return Ok(Vec::new()) };
        let shard = sets[first].0;
        let some = self.waiting.iter().copied().take(SETS_A_CALL).take_while(|&set| sets[set].0 == shard);
        let some: Vec<usize> = some.collect();
        let base = redis.keys().base(shard).into_bytes();
        let mut pipeline = Pipeline::with_capacity(2 * some.len());
        for &set in &some {
            let key = [&base[..], &sets[set].1].concat();
            pipeline.cmd("ZCARD").arg(&key).add_command(zrange(&key, &(0..FIRST_ENTRIES)));
        }
        let mut answers = redis.pipeline(shard, &pipeline).await?.into_iter();
        let (mut pages, mut large) = (Vec::new(), Vec::new());
        for (&set, (count, page)) in some.iter().zip(iter::from_fn(|| answers.next().zip(answers.next()))) {
            let (count, page): (usize, Vec<Vec<u8>>) = (if_sorted_set(count)?, if_sorted_set(page)?);
            if count > FIRST_ENTRIES
                && let Some(last) = page.last().cloned()
            {
                large.push(Large { set, last, left: FIRST_ENTRIES..count });
            }
            pages.push((set, page));
        }
        self.waiting.drain(..some.len());
        self.large.extend(large);
        Ok(pages)
    }
}

// === impl PacedCalls ===

impl PacedCalls {
    /// Returns the entries of a sorted set in a range of ranks; empty if the key is not a sorted set.
    pub(super) async fn page(
        &mut self,
        shard: ShardId,
        index: &[u8],
        ranks: Range<usize>,
    ) -> Result<Vec<Vec<u8>>, Error> {
        let key = [self.keys().base(shard).as_bytes(), index].concat();
        if_sorted_set(self.run(shard, &zrange(&key, &ranks)).await)
    }
}

fn zrange(key: &[u8], ranks: &Range<usize>) -> Cmd {
    let mut zrange = redis::cmd("ZRANGE");
    zrange.arg(key).arg(ranks.start).arg(ranks.end - 1);
    zrange
}

/// Reads an answer about a sorted set: empty if the key has another type, which is a separate finding.
fn if_sorted_set<T: FromRedisValue + Default>(answer: Result<Value, Error>) -> Result<T, Error> {
    match answer {
        Err(error) if error.is_wrong_type() => Ok(T::default()),
        answer => from_redis_value(answer?)
            .map_err(|error| Error::Unfit(format!("unexpected reply to ZRANGE: {error}"))),
    }
}
