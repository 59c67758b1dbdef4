//! Where messages with generated ids go: to every shard in turn, to those that hold little more often.

use crate::{Client, ShardCount, ShardId, turns::turns};
use std::{
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};
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

// === impl Client ===

impl Client {
    /// The shard for messages with generated ids. Those that go together share one, so that they share a call.
    pub(crate) fn present_shard(&self) -> ShardId {
        let turn = self.spread().turn.load(Ordering::Relaxed);
        let shards = self.shards();
        let (order, known) = {
            let state = self.spread().state();
            (Arc::clone(&state.turns), state.shards)
        };
        if order.is_empty() || known != Some(shards) {
            return ShardId::new((turn % u32::from(shards.get())) as u16);
        }
        order[turn as usize % order.len()]
    }

    /// Goes on to the next shard for messages with generated ids. Now and then that asks shards how much they hold,
    /// in the background: no put waits for it.
    pub(crate) fn next_shard(&self) -> ShardId {
        self.spread().turn.fetch_add(1, Ordering::Relaxed);
        let shards = self.shards();
        let look = self.spread().state().look(shards, now());
        if !look.is_empty() {
            let client = self.clone();
            tokio::spawn(async move { client.look_at_shards(shards, &look).await });
        }
        self.present_shard()
    }

    async fn look_at_shards(&self, shards: ShardCount, look: &[ShardId]) {
        let found = self.shard_layouts(look).await;
        let mut holds = Vec::with_capacity(look.len());
        for (&shard, found) in look.iter().zip(found) {
            match found {
                Ok(Some(found)) => {
                    self.knowledge().learn(&found.layout);
                    holds.push((shard, found.messages));
                }
                Ok(None) => {}
                Err(error) => tracing::debug!(%shard, %error, "how much it holds is not known"),
            }
        }
        self.spread().state().saw(shards, holds.into_iter());
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
    fn a_growth_begins_anew() {
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
