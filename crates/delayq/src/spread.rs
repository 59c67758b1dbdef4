//! The choice of shards for messages with generated ids: every shard in turn.

use delayq_core::shard::{ShardCount, ShardId};
use std::sync::atomic::{AtomicU32, Ordering};

/// Maximum attempts to find a shard that need not be avoided: if nearly all shards should be avoided, some messages go
/// to a shard that should be avoided.
const TRIES: u32 = 64;

pub(crate) struct Spread {
    turn: AtomicU32,
}

// === impl Spread ===

impl Default for Spread {
    fn default() -> Self {
        Self { turn: AtomicU32::new(fastrand::u32(..)) }
    }
}

impl Spread {
    /// In place of a shard to avoid, another shard is chosen at random, so that no neighbour gets the whole load.
    pub(crate) fn present(&self, shards: ShardCount, avoid: impl Fn(ShardId) -> bool) -> ShardId {
        let turn = self.turn.load(Ordering::Relaxed);
        let of_turn = |turn: u32| ShardId::new((turn % u32::from(shards.get())) as u16);
        // The same turn gets the same alternatives: messages of one pipeline share a shard.
        let mut random = fastrand::Rng::with_seed(turn.into());
        let others = (1..TRIES).map(|_| of_turn(random.u32(..)));
        let mut tried = std::iter::once(of_turn(turn)).chain(others);
        tried.find(|&shard| !avoid(shard)).unwrap_or_else(|| of_turn(turn))
    }

    pub(crate) fn advance(&self) {
        self.turn.fetch_add(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_to_be_avoided_gets_nothing_and_the_others_share_its_turns() {
        let (spread, shards) = (Spread::default(), ShardCount::new(12).unwrap());
        let mut got = [0_u32; 12];
        for _ in 0..12_000 {
            spread.advance();
            got[usize::from(spread.present(shards, |shard| shard.get() < 6).get())] += 1;
        }
        assert!(
            got[..6].iter().all(|&n| n == 0) && got[6..].iter().all(|&n| (1500..2500).contains(&n)),
            "{got:?}"
        );
        assert_eq!(spread.present(shards, |_| true), spread.present(shards, |_| false), "there is no other");
    }
}
