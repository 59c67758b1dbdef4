//! Polls ask the shards which topics have messages, in case a notification was lost.
//!
//! A poll asks each shard for one page of its topics: the cost depends on shards, not on topics. A shard whose
//! notifications may have been missed is swept: all pages are requested without a rest.

use crate::context::Context;
use delayq::Error;
use delayq::protocol::{Holder, Probe, ShardId, TopicsPage};
use futures_util::future::join_all;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// Maximum shards in one round trip: Redis serves so many pages in a few milliseconds.
const MAX_SHARDS: usize = 8;

pub(super) struct Polls {
    every: Duration,
    next: Instant,
    under_way: bool,
    rests_until: Option<Instant>,
    /// Shards whose pending answer tells where to continue; excludes shards swept from the start meanwhile.
    asked: BTreeSet<ShardId>,
    /// Unless the next page is the first.
    pages: BTreeMap<ShardId, u64>,
    swept: BTreeSet<ShardId>,
}

type ShardTopics = (ShardId, Result<TopicsPage, Error>);

pub(super) struct Polled {
    pub(super) pages: Vec<ShardTopics>,
    /// For each node, a write that tests what reading a page cannot show.
    pub(super) wrote: Vec<Result<(), Error>>,
}

// === impl Polls ===

impl Polls {
    pub(super) fn new(every: Duration, now: Instant) -> Self {
        Self {
            every,
            next: now,
            under_way: false,
            rests_until: None,
            asked: BTreeSet::new(),
            pages: BTreeMap::new(),
            swept: BTreeSet::new(),
        }
    }

    /// All topics, without a rest.
    pub(super) fn sweep(&mut self, shards: &[ShardId]) {
        for shard in shards {
            self.asked.remove(shard);
            self.pages.remove(shard);
            self.swept.insert(*shard);
        }
    }

    /// `None` while a poll runs.
    pub(super) fn next(&self, now: Instant) -> Option<Instant> {
        let next = match (self.under_way, self.swept.is_empty()) {
            (true, _) => return None,
            (false, true) => self.next,
            (false, false) => now.min(self.next),
        };
        Some(self.rests_until.map_or(next, |until| next.max(until)))
    }

    /// A swept shard would be asked again at once.
    pub(super) fn rest(&mut self, until: Instant) {
        self.rests_until = Some(until);
    }

    pub(super) fn due(&mut self, shards: &[ShardId], now: Instant) -> Vec<(ShardId, Option<u64>)> {
        if self.next(now).is_none_or(|at| now < at) {
            return Vec::new();
        }
        let all = now >= self.next;
        if all {
            self.next = now + self.every;
        }
        self.swept.retain(|shard| shards.binary_search(shard).is_ok());
        let asked = shards.iter().filter(|shard| all || self.swept.contains(shard));
        let pages: Vec<_> = asked.map(|shard| (*shard, self.pages.get(shard).copied())).collect();
        self.asked = pages.iter().map(|(shard, _)| *shard).collect();
        self.under_way = !pages.is_empty();
        pages
    }

    pub(super) fn ended(&mut self) {
        self.under_way = false;
    }

    pub(super) fn answered(&mut self, shard: ShardId, next: Option<u64>) {
        if !self.asked.remove(&shard) {
            return;
        }
        if let Some(first) = next {
            self.pages.insert(shard, first);
        } else {
            self.pages.remove(&shard);
            self.swept.remove(&shard);
        }
    }
}

pub(super) async fn poll(context: Context, pages: Vec<(ShardId, Option<u64>)>) -> Polled {
    let nodes = context.places.by_node(pages, |(shard, _)| *shard);
    let polled = join_all(nodes.iter().map(|pages| poll_node(&context.holder, pages))).await;
    let (wrote, pages): (Vec<_>, Vec<_>) = polled.into_iter().unzip();
    Polled { pages: pages.into_iter().flatten().collect(), wrote }
}

/// Requests these pages (at least one) from one node. If the node does not answer, the remaining pages are skipped.
async fn poll_node(
    holder: &Holder,
    pages: &[(ShardId, Option<u64>)],
) -> (Result<(), Error>, Vec<ShardTopics>) {
    let wrote = Probe::new(holder.client()).takes_writes(pages[0].0).await;
    let mut silence = wrote.as_ref().err().filter(|error| is_silence(error)).cloned();
    let mut polled = Vec::with_capacity(pages.len());
    for some in pages.chunks(MAX_SHARDS) {
        let answers = match &silence {
            Some(error) => vec![Err(error.clone()); some.len()],
            None => holder.topics(some).await,
        };
        silence = silence.or_else(|| {
            let errors: Option<Vec<&Error>> = answers.iter().map(|answer| answer.as_ref().err()).collect();
            errors?.into_iter().find(|error| is_silence(error)).cloned()
        });
        polled.extend(some.iter().map(|(shard, _)| *shard).zip(answers));
    }
    (wrote, polled)
}

fn is_silence(error: &Error) -> bool {
    matches!(error, Error::Unreachable { .. } | Error::TooManyClients { .. } | Error::NoAnswer { .. })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shard_is_polled_a_page_at_a_time_and_swept_without_a_rest() {
        let (now, every) = (Instant::now(), Duration::from_secs(2));
        let mut polls = Polls::new(every, now);
        let [a, b] = [0, 1].map(ShardId::new);
        assert_eq!(polls.due(&[a, b], now), [(a, None), (b, None)]);
        assert_eq!((polls.next(now), polls.due(&[a, b], now)), (None, Vec::new()));
        polls.answered(a, Some(501));
        polls.answered(b, None);
        polls.ended();
        assert_eq!((polls.next(now), polls.due(&[a, b], now)), (Some(now + every), Vec::new()));
        let later = now + every;
        assert_eq!(polls.due(&[a, b], later), [(a, Some(501)), (b, None)]);
        // The pending answers miss notifications lost meanwhile.
        polls.sweep(&[a]);
        polls.answered(a, None);
        polls.answered(b, None);
        polls.ended();
        assert_eq!(polls.due(&[a, b], later), [(a, None)]);
        polls.answered(a, Some(501));
        polls.ended();
        assert_eq!(polls.due(&[a, b], later), [(a, Some(501))]);
        polls.answered(a, None);
        polls.ended();
        assert_eq!((polls.next(later), polls.due(&[a, b], later)), (Some(later + every), Vec::new()));
        // Shards that moved to another forwarder are not asked.
        polls.sweep(&[a, b]);
        assert_eq!(polls.due(&[b], later), [(b, None)]);
    }
}
