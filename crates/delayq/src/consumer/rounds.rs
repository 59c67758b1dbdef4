//! Round trips in flight by node. A node may have a few concurrent round trips. A node that did not answer is tried by
//! a single call for no message, so that the attempt takes no places from other nodes. Pure.

use delayq_core::shard::ShardId;
use std::collections::{BTreeMap, BTreeSet};

/// Concurrent round trips to a node: a notification during a round trip does not wait for the answer.
pub(super) const ROUNDS: usize = 4;

#[derive(Debug, Default)]
pub(super) struct Rounds {
    nodes: BTreeMap<String, NodeState>,
}

#[derive(Debug, Default)]
struct NodeState {
    under_way: usize,
    is_silent: bool,
    waiting: BTreeSet<ShardId>,
}

// === impl Rounds ===

impl Rounds {
    /// Returns the shards to ask, with the number of messages for each (0: only check that the node takes
    /// writes). All other shards wait until a round trip ends.
    pub(super) fn begin(&mut self, node: &str, asked: Vec<(ShardId, usize)>) -> Vec<(ShardId, usize)> {
        let node = self.nodes.entry(node.to_owned()).or_default();
        let mut asked = asked.into_iter();
        let now: Vec<_> = match (node.is_silent, node.under_way) {
            (false, ROUNDS..) | (true, 1..) => Vec::new(),
            (false, _) => asked.by_ref().collect(),
            (true, 0) => asked.by_ref().take(1).map(|(shard, _)| (shard, 0)).collect(),
        };
        node.waiting.extend(asked.map(|(shard, _)| shard));
        node.under_way += usize::from(!now.is_empty());
        now
    }

    /// Returns the shards that waited for the end.
    pub(super) fn end(&mut self, node: &str, is_silent: bool) -> BTreeSet<ShardId> {
        let node = self.nodes.get_mut(node).expect("a round that ends has begun");
        node.under_way -= 1;
        node.is_silent = is_silent;
        std::mem::take(&mut node.waiting)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shards(numbers: &[u16]) -> Vec<(ShardId, usize)> {
        numbers.iter().map(|&number| (ShardId::new(number), 8)).collect()
    }

    fn waiting(numbers: &[u16]) -> BTreeSet<ShardId> {
        numbers.iter().map(|&number| ShardId::new(number)).collect()
    }

    #[test]
    fn a_node_has_a_few_round_trips_and_what_comes_meanwhile_waits_for_the_end_of_one() {
        let mut rounds = Rounds::default();
        for shard in 0..4 {
            assert_eq!(rounds.begin("a", shards(&[shard])), shards(&[shard]));
        }
        assert_eq!(rounds.begin("a", shards(&[4, 5])), []);
        assert_eq!(rounds.begin("b", shards(&[6])), shards(&[6]), "another node has its own");
        assert_eq!(rounds.end("a", false), waiting(&[4, 5]));
        assert_eq!(rounds.begin("a", shards(&[4, 5])), shards(&[4, 5]));
    }

    #[test]
    fn a_silent_node_is_tried_by_one_call_for_no_message_until_it_answers() {
        let mut rounds = Rounds::default();
        rounds.begin("a", shards(&[0, 1]));
        assert_eq!(rounds.end("a", true), waiting(&[]));
        assert_eq!(rounds.begin("a", shards(&[0, 1])), [(ShardId::new(0), 0)]);
        assert_eq!(rounds.begin("a", shards(&[2])), []);
        assert_eq!(rounds.end("a", true), waiting(&[1, 2]));
        assert_eq!(rounds.begin("a", shards(&[1])), [(ShardId::new(1), 0)]);
        rounds.end("a", false);
        assert_eq!(rounds.begin("a", shards(&[0, 1])), shards(&[0, 1]));
    }
}
