//! Selects the shards to poll without a notification: shards that were not asked for long. Pure.
//!
//! A few shards at a time, so that polling keeps no other client waiting. A recently asked shard is not polled, because
//! a shard without further messages publishes the next change.

use delayq_core::shard::ShardId;
use std::time::Duration;
use tokio::time::Instant;

/// Poll interval of a shard without notifications: the maximum cost of a lost notification.
pub(super) const LOOK_EVERY: Duration = Duration::from_secs(1);
/// The same next to a pump, which reports what it made ready without a notification.
pub(super) const LOOK_EVERY_BESIDE_A_PUMP: Duration = Duration::from_secs(10);
/// Shards polled together: about 0.3 ms of Redis's time.
const AT_ONCE: usize = 8;
/// Minimum time between two polls.
const PAUSE: Duration = Duration::from_millis(20);

#[derive(Debug)]
pub(super) struct Looking {
    every: Duration,
    asked: Vec<Option<Instant>>,
    next: Instant,
}

// === impl Looking ===

impl Looking {
    /// Polls each shard once in `every`.
    pub(super) fn new(every: Duration, now: Instant) -> Self {
        Self { every, asked: Vec::new(), next: now }
    }

    pub(super) fn asked(&mut self, shard: ShardId, now: Instant) {
        let at = usize::from(shard.get());
        if self.asked.len() <= at {
            self.asked.resize(at + 1, None);
        }
        self.asked[at] = Some(now);
    }

    pub(super) const fn next(&self) -> Instant {
        self.next
    }

    /// Records the returned shards as asked.
    pub(super) fn take(&mut self, shards: usize, now: Instant) -> Vec<ShardId> {
        if now < self.next {
            return Vec::new();
        }
        self.asked.resize(shards.max(self.asked.len()), None);
        let mut oldest: Vec<(Option<Instant>, u16)> = self.asked.iter().copied().zip(0..).collect();
        oldest.sort_unstable();
        let due = |asked: &Option<Instant>| asked.is_none_or(|asked| asked + self.every <= now);
        let taken: Vec<ShardId> = oldest
            .iter()
            .take_while(|(asked, _)| due(asked))
            .take(AT_ONCE)
            .map(|&(_, shard)| ShardId::new(shard))
            .collect();
        taken.iter().for_each(|&shard| self.asked(shard, now));
        let rest = oldest.get(taken.len()).map(|(asked, _)| *asked);
        let next = rest.map_or(now + self.every, |asked| asked.map_or(now, |asked| asked + self.every));
        self.next = next.max(now + PAUSE);
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock;

    fn numbers(shards: &[ShardId]) -> Vec<u16> {
        shards.iter().map(|shard| shard.get()).collect()
    }

    fn start() -> Instant {
        clock::instant()
    }

    #[test]
    fn every_shard_is_looked_at_in_turn_a_few_at_a_time() {
        let now = start();
        let mut looking = Looking::new(LOOK_EVERY, now);
        assert_eq!(numbers(&looking.take(20, now)), (0..8).collect::<Vec<_>>());
        assert_eq!(looking.next(), now + PAUSE);
        assert_eq!(looking.take(20, now), []);
        assert_eq!(numbers(&looking.take(20, now + PAUSE)), (8..16).collect::<Vec<_>>());
        assert_eq!(numbers(&looking.take(20, now + 2 * PAUSE)), (16..20).collect::<Vec<_>>());
        assert_eq!(looking.next(), now + LOOK_EVERY);
        assert_eq!(numbers(&looking.take(20, now + LOOK_EVERY)), (0..8).collect::<Vec<_>>());
    }

    #[test]
    fn what_was_asked_lately_is_left_alone() {
        let now = start();
        let mut looking = Looking::new(LOOK_EVERY, now);
        (0..4).for_each(|shard| looking.asked(ShardId::new(shard), now));
        assert_eq!(looking.take(4, now), []);
        let later = now + LOOK_EVERY / 2;
        looking.asked(ShardId::new(1), later);
        assert_eq!(numbers(&looking.take(4, now + LOOK_EVERY)), [0, 2, 3]);
        assert_eq!(looking.next(), later + LOOK_EVERY);
    }

    #[test]
    fn a_shard_that_a_growth_added_is_looked_at() {
        let now = start();
        let mut looking = Looking::new(LOOK_EVERY, now);
        assert_eq!(numbers(&looking.take(1, now)), [0]);
        assert_eq!(numbers(&looking.take(3, looking.next())), [1, 2, 0]);
    }

    #[test]
    fn without_shards_there_is_nothing_to_look_at() {
        let now = start();
        let mut looking = Looking::new(LOOK_EVERY, now);
        assert_eq!(looking.take(0, now), []);
        assert_eq!(looking.next(), now + LOOK_EVERY);
    }
}
