//! Looks: what the shards say of their topics, so that nothing waits whose notification was lost.
//!
//! A look asks each shard for one page of its topics, and costs by shards, not by topics. Where something may have been
//! missed, a shard is swept: asked for page after page without a rest.

use delayq_core::{Client, Error, ShardId, TopicsPage};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

/// How many shards are asked in one round trip: so many pages Redis answers in a few milliseconds.
const MOST_SHARDS: usize = 8;

/// Which pages are looked at, and when.
pub(super) struct Looks {
    every: Duration,
    /// When every shard is looked at the next time.
    next: Instant,
    under_way: bool,
    /// Shards whose answer says where to go on. Those that are swept anew meanwhile are not among them.
    asked: BTreeSet<ShardId>,
    /// The topic that a shard's next page begins with, where it is not the first.
    pages: BTreeMap<ShardId, u64>,
    swept: BTreeSet<ShardId>,
}

/// What the shards said, each with its page, or why it did not say.
pub(super) type Looked = Vec<(ShardId, Result<TopicsPage, Error>)>;

// === impl Looks ===

impl Looks {
    pub(super) fn new(every: Duration, now: Instant) -> Self {
        Self {
            every,
            next: now,
            under_way: false,
            asked: BTreeSet::new(),
            pages: BTreeMap::new(),
            swept: BTreeSet::new(),
        }
    }

    /// Looks at all topics of these shards at once.
    pub(super) fn sweep(&mut self, shards: &[ShardId]) {
        for shard in shards {
            self.asked.remove(shard);
            self.pages.remove(shard);
            self.swept.insert(*shard);
        }
    }

    /// When to look; `None`: a look is under way.
    pub(super) fn next(&self, now: Instant) -> Option<Instant> {
        match (self.under_way, self.swept.is_empty()) {
            (true, _) => None,
            (false, true) => Some(self.next),
            (false, false) => Some(now.min(self.next)),
        }
    }

    /// Which pages to ask for now, of these shards.
    pub(super) fn due(&mut self, shards: &[ShardId], now: Instant) -> Vec<(ShardId, u64)> {
        if self.next(now).is_none_or(|at| now < at) {
            return Vec::new();
        }
        let all = now >= self.next;
        if all {
            self.next = now + self.every;
        }
        self.swept.retain(|shard| shards.binary_search(shard).is_ok());
        let asked = shards.iter().filter(|shard| all || self.swept.contains(shard));
        let pages: Vec<_> =
            asked.map(|shard| (*shard, self.pages.get(shard).copied().unwrap_or(1))).collect();
        self.asked = pages.iter().map(|(shard, _)| *shard).collect();
        self.under_way = !pages.is_empty();
        pages
    }

    /// A look is over.
    pub(super) fn ended(&mut self) {
        self.under_way = false;
    }

    /// A shard has answered: where its next page begins; `None`: all of it has been looked at, or cannot be.
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

/// Asks for these pages.
pub(super) async fn look(client: Client, pages: Vec<(ShardId, u64)>) -> Looked {
    let mut looked = Vec::with_capacity(pages.len());
    for some in pages.chunks(MOST_SHARDS) {
        let answers = client.topics_pages(some).await;
        looked.extend(some.iter().map(|(shard, _)| *shard).zip(answers));
    }
    looked
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shard_is_looked_at_a_page_at_a_time_and_swept_without_a_rest() {
        let (now, every) = (Instant::now(), Duration::from_secs(2));
        let mut looks = Looks::new(every, now);
        let [a, b] = [0, 1].map(ShardId::new);
        assert_eq!(looks.due(&[a, b], now), [(a, 1), (b, 1)]);
        assert_eq!((looks.next(now), looks.due(&[a, b], now)), (None, Vec::new()));
        looks.answered(a, Some(501));
        looks.answered(b, None);
        looks.ended();
        assert_eq!((looks.next(now), looks.due(&[a, b], now)), (Some(now + every), Vec::new()));
        let later = now + every;
        assert_eq!(looks.due(&[a, b], later), [(a, 501), (b, 1)]);
        // What was missed while they were asked is not in their answers.
        looks.sweep(&[a]);
        looks.answered(a, None);
        looks.answered(b, None);
        looks.ended();
        assert_eq!(looks.due(&[a, b], later), [(a, 1)]);
        looks.answered(a, Some(501));
        looks.ended();
        assert_eq!(looks.due(&[a, b], later), [(a, 501)]);
        looks.answered(a, None);
        looks.ended();
        assert_eq!((looks.next(later), looks.due(&[a, b], later)), (Some(later + every), Vec::new()));
        // Shards that are another's now are not asked.
        looks.sweep(&[a, b]);
        assert_eq!(looks.due(&[b], later), [(b, 1)]);
    }
}
