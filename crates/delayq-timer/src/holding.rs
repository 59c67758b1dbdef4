//! Which shards are held for their clock, and which still have to be told. Pure.

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
    /// A shard is known to be held, or not to be.
    pub(crate) fn is(&mut self, shard: ShardId, held: bool) {
        if held {
            self.held.insert(shard);
        } else {
            self.held.remove(&shard);
        }
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

    /// Which shards to tell now, and what: `on` while the clock `jumped`, off once it is `proven`.
    pub(crate) fn tell(&mut self, owned: &[ShardId], jumped: bool, proven: bool) -> Vec<(ShardId, bool)> {
        let wrong = |shard: &ShardId| {
            if jumped { !self.held.contains(shard) } else { proven && self.held.contains(shard) }
        };
        let idle = |shard: &ShardId| !self.telling.contains_key(shard);
        let tell: Vec<_> =
            owned.iter().filter(|s| wrong(s) && idle(s)).map(|&shard| (shard, jumped)).collect();
        self.telling.extend(tell.iter().copied());
        tell
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: ShardId = ShardId::new(1);
    const B: ShardId = ShardId::new(2);

    #[test]
    fn a_jump_tells_every_shard_once_and_a_proven_clock_lets_them_go() {
        let mut holding = Holding::default();
        assert_eq!(holding.tell(&[A, B], false, true), []);
        assert_eq!(holding.tell(&[A, B], true, false), [(A, true), (B, true)]);
        assert_eq!(holding.tell(&[A, B], true, false), [], "they are being told");
        holding.told(A, true);
        holding.told(B, false);
        assert_eq!(holding.tell(&[A, B], true, false), [(B, true)], "what failed is told again");
        holding.told(B, true);
        assert_eq!(holding.tell(&[A, B], false, false), [], "not before the clock is proven");
        assert_eq!(holding.tell(&[A, B], false, true), [(A, false), (B, false)]);
    }

    #[test]
    fn a_hold_that_an_earlier_owner_left_is_ended() {
        let mut holding = Holding::default();
        holding.is(A, true);
        assert_eq!(holding.tell(&[A, B], false, true), [(A, false)]);
        holding.told(A, true);
        assert_eq!(holding.tell(&[A, B], false, true), []);
    }
}
