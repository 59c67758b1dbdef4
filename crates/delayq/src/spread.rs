//! Where messages with generated ids go: to every shard in turn, to those that hold little more often.

use crate::turns::turns;
use delayq_core::shard::{ShardCount, ShardId};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tokio::time::Instant;

/// How often shards are asked how much they hold, while messages are put.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// How many shards are asked at once.
const SHARDS_A_LOOK: u16 = 64;

/// The order in which shards get messages.
pub(crate) struct Spread {
    /// Counts the turns.
    turn: AtomicU32,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The shard of each turn; none: all shards, one after the other.
    turns: Arc<[ShardId]>,
    shards: Option<ShardCount>,
    /// How many messages each shard held when it was asked last.
    holds: Vec<Option<u64>>,
    /// The shards that are asked next, and when.
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
    /// The shard whose turn it is.
    pub(crate) fn present(&self, shards: ShardCount) -> ShardId {
        let turn = self.turn.load(Ordering::Relaxed);
        let (order, known) = {
            let state = self.state();
            (Arc::clone(&state.turns), state.shards)
        };
        if order.is_empty() || known != Some(shards) {
            return ShardId::new((turn % u32::from(shards.get())) as u16);
        }
        order[turn as usize % order.len()]
    }

    /// Goes on to the next turn: the shards to ask now how much they hold; none before it is time.
    pub(crate) fn advance(&self, shards: ShardCount) -> Vec<ShardId> {
        self.turn.fetch_add(1, Ordering::Relaxed);
        self.state().look(shards, now())
    }

    /// Takes in how much shards hold, of so many.
    pub(crate) fn saw(&self, shards: ShardCount, holds: impl Iterator<Item = (ShardId, u64)>) {
        self.state().saw(shards, holds);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nothing panics while it holds the spread")
    }
}

// === impl State ===

impl State {
    /// The shards to ask now how much they hold; none before it is time.
    fn look(&mut self, shards: ShardCount, now: Instant) -> Vec<ShardId> {
        if self.shards != Some(shards) {
            // What was known of fewer shards says nothing about where the new ones stand.
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

#[allow(clippy::disallowed_methods, reason = "tokio's clock, which tests can pause")]
fn now() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_are_asked_in_turn_and_not_all_at_once() {
        let mut state = State::default();
        let start = Instant::from_std(std::time::Instant::now());
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
    fn a_growth_begins_again() {
        let mut state = State::default();
        let start = Instant::from_std(std::time::Instant::now());
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
