//! The choice of shards for messages with generated ids: every shard in turn, nearly empty shards more often.

use crate::clock;
use crate::turns::turns;
use delayq_core::shard::{ShardCount, ShardId};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tokio::time::Instant;

/// Interval, while messages are put, of counting the messages in shards.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// Maximum number of shards to ask at once.
const SHARDS_A_LOOK: u16 = 64;
/// Maximum attempts to find a shard that need not be avoided: if nearly all shards should be avoided, some messages go
/// to a shard that should be avoided.
const TRIES: u32 = 64;

pub(crate) struct Spread {
    turn: AtomicU32,
    state: Mutex<Spreading>,
}

#[derive(Default)]
struct Spreading {
    /// The shard of each turn; empty: all shards in sequence.
    turns: Arc<[ShardId]>,
    shards: Option<ShardCount>,
    holds: Vec<Option<u64>>,
    /// The first shard of the next count, and the time of that count.
    look_from: u16,
    look_at: Option<Instant>,
}

// === impl Spread ===

impl Default for Spread {
    fn default() -> Self {
        Self { turn: AtomicU32::new(fastrand::u32(..)), state: Mutex::default() }
    }
}

impl Spread {
    /// In place of a shard to avoid, another shard is chosen at random, so that no neighbour gets the whole load.
    pub(crate) fn present(&self, shards: ShardCount, avoid: impl Fn(ShardId) -> bool) -> ShardId {
        let turn = self.turn.load(Ordering::Relaxed);
        let (order, known) = {
            let state = self.state();
            (Arc::clone(&state.turns), state.shards)
        };
        let of_turn = |turn: u32| match order.is_empty() || known != Some(shards) {
            true => ShardId::new((turn % u32::from(shards.get())) as u16),
            false => order[turn as usize % order.len()],
        };
        // The same turn gets the same alternatives: messages of one pipeline share a shard.
        let mut random = fastrand::Rng::with_seed(turn.into());
        let others = (1..TRIES).map(|_| of_turn(random.u32(..)));
        let mut tried = std::iter::once(of_turn(turn)).chain(others);
        tried.find(|&shard| !avoid(shard)).unwrap_or_else(|| of_turn(turn))
    }

    /// Returns the shards to count now; empty before the next count is due.
    pub(crate) fn advance(&self, shards: ShardCount) -> Vec<ShardId> {
        self.turn.fetch_add(1, Ordering::Relaxed);
        self.state().look(shards, clock::instant())
    }

    pub(crate) fn saw(&self, shards: ShardCount, holds: impl Iterator<Item = (ShardId, u64)>) {
        self.state().saw(shards, holds);
    }

    fn state(&self) -> MutexGuard<'_, Spreading> {
        self.state.lock().expect("no code panics while holding the lock")
    }
}

// === impl Spreading ===

impl Spreading {
    /// Empty before the next count is due.
    fn look(&mut self, shards: ShardCount, now: Instant) -> Vec<ShardId> {
        if self.shards != Some(shards) {
            // Counts under fewer shards say nothing about the new shards.
            *self = Self { shards: Some(shards), holds: vec![None; shards.get().into()], ..Self::default() };
        }
        if shards.get() == 1 || self.look_at.is_some_and(|at| now < at) {
            return Vec::new();
        }
        self.look_at = Some(now + LOOK_EVERY);
        let from = self.look_from.min(shards.get() - 1);
        let to = from.saturating_add(SHARDS_A_LOOK).min(shards.get());
        self.look_from = if to == shards.get() { 0 } else { to };
        (from..to).map(ShardId::new).collect()
    }

    fn saw(&mut self, shards: ShardCount, holds: impl Iterator<Item = (ShardId, u64)>) {
        if self.shards == Some(shards) {
            for (shard, messages) in holds {
                self.holds[usize::from(shard.get())] = Some(messages);
            }
            self.turns = turns(&self.holds).into();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_are_asked_in_turn_and_not_all_at_once() {
        let mut state = Spreading::default();
        let start = clock::instant();
        let shards = ShardCount::new(100).unwrap();
        let numbers = |look: Vec<ShardId>| look.iter().map(|shard| shard.get()).collect::<Vec<_>>();
        assert_eq!(numbers(state.look(shards, start)), (0..64).collect::<Vec<_>>());
        assert_eq!(state.look(shards, start), []);
        assert_eq!(numbers(state.look(shards, start + LOOK_EVERY)), (64..100).collect::<Vec<_>>());
        assert_eq!(numbers(state.look(shards, start + 2 * LOOK_EVERY))[0], 0);
        let one = ShardCount::new(1).unwrap();
        assert_eq!(state.look(one, start + 3 * LOOK_EVERY), [], "there is no choice");
    }

    #[test]
    fn what_is_to_be_avoided_gets_nothing_and_the_others_share_its_turns() {
        let (spread, shards) = (Spread::default(), ShardCount::new(12).unwrap());
        let mut got = [0_u32; 12];
        for _ in 0..12_000 {
            spread.turn.fetch_add(1, Ordering::Relaxed);
            got[usize::from(spread.present(shards, |shard| shard.get() < 6).get())] += 1;
        }
        assert!(
            got[..6].iter().all(|&n| n == 0) && got[6..].iter().all(|&n| (1500..2500).contains(&n)),
            "{got:?}"
        );
        assert_eq!(spread.present(shards, |_| true), spread.present(shards, |_| false), "there is no other");
    }

    #[test]
    fn a_growth_begins_again() {
        let mut state = Spreading::default();
        let start = clock::instant();
        let (four, eight) = (ShardCount::new(4).unwrap(), ShardCount::new(8).unwrap());
        state.look(four, start);
        state.saw(four, (0..4).map(|shard| (ShardId::new(shard), 10)));
        assert!(!state.turns.is_empty());
        assert_eq!(state.look(eight, start).len(), 8);
        assert!(state.turns.is_empty());
        state.saw(four, std::iter::once((ShardId::new(0), 10)));
        assert!(state.turns.is_empty(), "an answer to an earlier question comes too late");
    }
}
