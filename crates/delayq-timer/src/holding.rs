//! Which shards are held for their clock, and which still have to be told. Pure.
//!
//! What is not known of a shard is learned from its answers: one that is held refuses the pump, and says so. So a hold of
//! which nobody knows whether it arrived is ended all the same.

use delayq_core::ShardId;
use std::collections::{BTreeMap, BTreeSet};

/// What is known of the *hold* flags of the shards that are owned.
#[derive(Clone, Debug, Default)]
pub(crate) struct Holding {
    held: BTreeSet<ShardId>,
    /// What a shard is being told.
    telling: BTreeMap<ShardId, bool>,
}

// === impl Holding ===

impl Holding {
    /// An answer of a shard says that it is held, or that it is not.
    pub(crate) fn is(&mut self, shard: ShardId, held: bool) {
        if held {
            self.held.insert(shard);
        } else if !self.held.is_empty() {
            self.held.remove(&shard);
        }
    }

    /// Whether a shard is known to be held.
    pub(crate) fn is_held(&self, shard: ShardId) -> bool {
        self.held.contains(&shard)
    }

    /// Whether any shard is known to be held.
    pub(crate) fn any(&self) -> bool {
        !self.held.is_empty()
    }

    /// A shard was told, or could not be: then it will be told again.
    pub(crate) fn told(&mut self, shard: ShardId, done: bool) {
        if let (Some(on), true) = (self.telling.remove(&shard), done) {
            self.is(shard, on);
        }
    }

    /// A shard is not owned any more.
    pub(crate) fn forget(&mut self, shard: ShardId) {
        self.held.remove(&shard);
        self.telling.remove(&shard);
    }

    /// Which shards to hold now, while the clock cannot be trusted.
    pub(crate) fn hold(&mut self, owned: impl Iterator<Item = ShardId>) -> Vec<ShardId> {
        let wrong = |shard: &ShardId| !self.held.contains(shard) && !self.telling.contains_key(shard);
        let tell: Vec<ShardId> = owned.filter(wrong).collect();
        self.telling.extend(tell.iter().map(|&shard| (shard, true)));
        tell
    }

    /// Which shards to let go now that the clock is proven.
    pub(crate) fn let_go(&mut self) -> Vec<ShardId> {
        let idle = |shard: &&ShardId| !self.telling.contains_key(shard);
        let tell: Vec<ShardId> = self.held.iter().filter(idle).copied().collect();
        self.telling.extend(tell.iter().map(|&shard| (shard, false)));
        tell
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: ShardId = ShardId::new(1);
    const B: ShardId = ShardId::new(2);

    fn hold(holding: &mut Holding) -> Vec<ShardId> {
        holding.hold([A, B].into_iter())
    }

    #[test]
    fn a_jump_tells_every_shard_once_and_a_proven_clock_lets_them_go() {
        let mut holding = Holding::default();
        assert_eq!(holding.let_go(), []);
        assert_eq!(hold(&mut holding), [A, B]);
        assert_eq!(hold(&mut holding), [], "they are being told");
        holding.told(A, true);
        holding.told(B, false);
        assert_eq!(hold(&mut holding), [B], "what failed is told again");
        holding.told(B, true);
        assert_eq!(holding.let_go(), [A, B]);
        holding.told(A, true);
        holding.told(B, false);
        assert_eq!(holding.let_go(), [B], "what failed is told again");
    }

    #[test]
    fn a_hold_that_nobody_is_known_to_have_made_is_ended() {
        let mut holding = Holding::default();
        hold(&mut holding);
        // It was not answered, and arrived.
        holding.told(A, false);
        assert_eq!(holding.let_go(), []);
        holding.is(A, true);
        assert_eq!(holding.let_go(), [A]);
        holding.told(A, true);
        assert!(holding.let_go().is_empty() && !holding.any());
    }
}
