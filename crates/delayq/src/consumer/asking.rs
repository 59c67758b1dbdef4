//! Selects the shards for the next reserve: all shards that may have messages, in turn, with a share for each.
//!
//! A shard with a full last answer has more messages, and is asked for several at once: one call for sixteen costs
//! Redis a fraction of sixteen calls.

use delayq_core::limits::MAX_IDS_A_CALL;
use delayq_core::shard::ShardId;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::Duration;
use tokio::time::Instant;

/// Minimum messages to ask from a shard that is known to have more, if so many are free.
const FULL_CALL: usize = 16;

#[derive(Debug, Default)]
pub(super) struct ShardsToAsk {
    turn: VecDeque<ShardId>,
    /// The shards in turn; true if a shard is known to have more.
    waiting: HashMap<ShardId, bool>,
    later: BTreeMap<Instant, Vec<ShardId>>,
}

// === impl ShardsToAsk ===

impl ShardsToAsk {
    pub(super) fn ask(&mut self, shard: ShardId) {
        self.add(shard, false);
    }

    pub(super) fn ask_for_more(&mut self, shard: ShardId) {
        self.add(shard, true);
    }

    pub(super) fn ask_later(&mut self, shard: ShardId, now: Instant, wait: Duration) {
        self.later.entry(now + wait).or_default().push(shard);
    }

    /// `None`: not before a notification.
    pub(super) fn next(&self, now: Instant) -> Option<Instant> {
        if !self.turn.is_empty() { Some(now) } else { self.later.keys().next().copied() }
    }

    /// Returns shards with the number of messages to ask for, longest waiting first. Each shard gets an equal
    /// share, but at least [`FULL_CALL`] if the shard has more. Shards that get nothing keep their turn.
    pub(super) fn take(&mut self, now: Instant, free: usize) -> Vec<(ShardId, usize)> {
        while let Some(entry) = self.later.first_entry().filter(|entry| *entry.key() <= now) {
            entry.remove().into_iter().for_each(|shard| self.ask(shard));
        }
        let (mut left, mut taken) = (free, Vec::new());
        while left > 0
            && let Some(shard) = self.turn.pop_front()
        {
            let has_more = self.waiting.remove(&shard).unwrap_or(false);
            let share = left.div_ceil(self.turn.len() + 1);
            let wanted = if has_more { share.max(FULL_CALL) } else { share };
            let most = wanted.min(left).min(MAX_IDS_A_CALL);
            left -= most;
            taken.push((shard, most));
        }
        taken
    }

    fn add(&mut self, shard: ShardId, has_more: bool) {
        match self.waiting.insert(shard, has_more) {
            None => self.turn.push_back(shard),
            // A full answer remains proof of more messages until the shard is asked.
            Some(had_more) => drop(self.waiting.insert(shard, has_more || had_more)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock;

    fn shards(asking: &mut ShardsToAsk, now: Instant, free: usize) -> Vec<(u16, usize)> {
        asking.take(now, free).into_iter().map(|(shard, most)| (shard.get(), most)).collect()
    }

    #[test]
    fn what_is_free_is_shared_among_those_that_may_have_something() {
        let (mut asking, now) = (ShardsToAsk::default(), clock::instant());
        assert_eq!(asking.next(now), None);
        [3, 1, 2, 1].into_iter().for_each(|shard| asking.ask(ShardId::new(shard)));
        assert_eq!(shards(&mut asking, now, 8), [(3, 3), (1, 3), (2, 2)]);
        assert_eq!(shards(&mut asking, now, 8), []);
    }

    #[test]
    fn more_shards_than_messages_take_turns() {
        let (mut asking, now) = (ShardsToAsk::default(), clock::instant());
        (0..3).for_each(|shard| asking.ask(ShardId::new(shard)));
        assert_eq!(shards(&mut asking, now, 2), [(0, 1), (1, 1)]);
        asking.ask(ShardId::new(0));
        assert_eq!(shards(&mut asking, now, 2), [(2, 1), (0, 1)]);
        assert_eq!(shards(&mut asking, now, 0), []);
    }

    #[test]
    fn a_shard_that_has_more_is_asked_for_several_and_the_rest_keep_their_turn() {
        let (mut asking, now) = (ShardsToAsk::default(), clock::instant());
        (0..4).for_each(|shard| asking.ask_for_more(ShardId::new(shard)));
        assert_eq!(shards(&mut asking, now, 24), [(0, 16), (1, 8)]);
        asking.ask(ShardId::new(2));
        assert_eq!(shards(&mut asking, now, 16), [(2, 16)], "a notification does not deny what is known");
        assert_eq!(shards(&mut asking, now, 100), [(3, 100)]);
        asking.ask(ShardId::new(0));
        asking.ask_for_more(ShardId::new(1));
        assert_eq!(shards(&mut asking, now, 24), [(0, 12), (1, 12)]);
    }

    #[test]
    fn what_is_held_back_is_asked_for_when_it_may_go() {
        let (mut asking, now) = (ShardsToAsk::default(), clock::instant());
        let wait = Duration::from_millis(20);
        asking.ask_later(ShardId::new(5), now, wait);
        assert_eq!(asking.next(now), Some(now + wait));
        assert_eq!(shards(&mut asking, now, 4), []);
        assert_eq!(shards(&mut asking, now + wait, 4), [(5, 4)]);
    }
}
