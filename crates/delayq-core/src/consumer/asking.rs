//! Which shards to ask next: those that may have something, in turn, each for its part.

use crate::ShardId;
use std::collections::{BTreeMap, HashSet, VecDeque};
use std::time::Duration;
use tokio::time::Instant;

/// The shards to be asked: at once, or from a time on.
#[derive(Debug, Default)]
pub(super) struct Asking {
    turn: VecDeque<ShardId>,
    waiting: HashSet<ShardId>,
    later: BTreeMap<Instant, Vec<ShardId>>,
}

// === impl Asking ===

impl Asking {
    /// This shard may have something now.
    pub(super) fn ask(&mut self, shard: ShardId) {
        if self.waiting.insert(shard) {
            self.turn.push_back(shard);
        }
    }

    /// This shard holds something back for so long.
    pub(super) fn ask_later(&mut self, shard: ShardId, now: Instant, wait: Duration) {
        self.later.entry(now + wait).or_default().push(shard);
    }

    /// When there is something to ask: now, later, or not before it is heard of.
    pub(super) fn next(&self, now: Instant) -> Option<Instant> {
        if !self.turn.is_empty() { Some(now) } else { self.later.keys().next().copied() }
    }

    /// The shards to ask for `free` messages, and how many of each: as many shards as there are messages to hand
    /// out, the longest waiting first.
    pub(super) fn take(&mut self, now: Instant, free: usize) -> Vec<(ShardId, usize)> {
        while let Some(entry) = self.later.first_entry().filter(|entry| *entry.key() <= now) {
            entry.remove().into_iter().for_each(|shard| self.ask(shard));
        }
        let count = self.turn.len().min(free);
        let each = free.checked_div(count).unwrap_or(0);
        let mut rest = free.checked_rem(count).unwrap_or(0);
        let taken: Vec<ShardId> = self.turn.drain(..count).collect();
        let part = |shard| {
            self.waiting.remove(&shard);
            let more = usize::from(rest > 0);
            rest -= more;
            (shard, (each + more).min(crate::MAX_IDS_A_CALL))
        };
        taken.into_iter().map(part).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shards(asking: &mut Asking, now: Instant, free: usize) -> Vec<(u16, usize)> {
        asking.take(now, free).into_iter().map(|(shard, most)| (shard.get(), most)).collect()
    }

    #[test]
    fn what_is_free_is_shared_among_those_that_may_have_something() {
        let (mut asking, now) = (Asking::default(), Instant::from_std(std::time::Instant::now()));
        assert_eq!(asking.next(now), None);
        [3, 1, 2, 1].into_iter().for_each(|shard| asking.ask(ShardId::new(shard)));
        assert_eq!(shards(&mut asking, now, 8), [(3, 3), (1, 3), (2, 2)]);
        assert_eq!(shards(&mut asking, now, 8), []);
    }

    #[test]
    fn more_shards_than_messages_take_turns() {
        let (mut asking, now) = (Asking::default(), Instant::from_std(std::time::Instant::now()));
        (0..3).for_each(|shard| asking.ask(ShardId::new(shard)));
        assert_eq!(shards(&mut asking, now, 2), [(0, 1), (1, 1)]);
        asking.ask(ShardId::new(0));
        assert_eq!(shards(&mut asking, now, 2), [(2, 1), (0, 1)]);
        assert_eq!(shards(&mut asking, now, 0), []);
    }

    #[test]
    fn what_is_held_back_is_asked_for_when_it_may_go() {
        let (mut asking, now) = (Asking::default(), Instant::from_std(std::time::Instant::now()));
        let wait = Duration::from_millis(20);
        asking.ask_later(ShardId::new(5), now, wait);
        assert_eq!(asking.next(now), Some(now + wait));
        assert_eq!(shards(&mut asking, now, 4), []);
        assert_eq!(shards(&mut asking, now + wait, 4), [(5, 4)]);
    }
}
