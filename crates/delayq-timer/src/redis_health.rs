//! The health of the Redises: answers, missing shards, and shards that other timers should take.

use crate::events;
use crate::hindrance::Hindrance;
use delayq::Error;
use delayq::protocol::ShardId;
use delayq::protocol::scheduling::NodeId;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

pub(crate) struct RedisHealth {
    nodes: BTreeMap<NodeId, NodeHealth>,
    /// No other timer can take the shards: this timer owns them by a lock, or is leaving.
    alone: bool,
    /// Shards that their nodes lack or have otherwise than this process knows, because of an outdated node map, say.
    lacking: BTreeMap<ShardId, Hindrance>,
    /// The nodes and shards that other timers should take.
    hindered: Hindered,
    asking: BTreeSet<NodeId>,
}

#[derive(Default)]
struct Hindered {
    /// Nodes of which no shard can be served.
    nodes: BTreeSet<NodeId>,
    shards: BTreeSet<ShardId>,
}

struct NodeHealth {
    state: Health,
    way: Hindrance,
}

enum Health {
    Well,
    Silent { since: Instant },
    Missing(String),
}

pub(crate) enum Ailment<'a> {
    /// No Redis has answered yet.
    Starting,
    /// This node does not answer, or refuses writes.
    Silent(NodeId),
    /// A Redis lacks a shard, or keeps another layout or deployment than this process knows: the reason.
    Missing(&'a str),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    Lost,
    Back,
    Nothing,
}

// === impl RedisHealth ===

impl RedisHealth {
    /// `alone`: no other timer can take the shards.
    pub(crate) fn new(alone: bool) -> Self {
        let (nodes, lacking) = (BTreeMap::new(), BTreeMap::new());
        Self { nodes, alone, lacking, hindered: Hindered::default(), asking: BTreeSet::new() }
    }

    pub(crate) fn ailment(&self) -> Option<Ailment<'_>> {
        let missing = self.nodes.values().find_map(|known| match &known.state {
            Health::Missing(why) => Some(Ailment::Missing(why)),
            Health::Well | Health::Silent { .. } => None,
        });
        let silent = self.nodes.iter().find_map(|(&node, known)| match known.state {
            Health::Silent { .. } => Some(Ailment::Silent(node)),
            Health::Well | Health::Missing(_) => None,
        });
        missing.or(silent).or_else(|| self.nodes.is_empty().then_some(Ailment::Starting))
    }

    /// Returns true if a Redis is to be asked more often than usual.
    pub(crate) fn is_poor(&self, node: NodeId) -> bool {
        self.nodes
            .get(&node)
            .is_none_or(|known| !matches!(known.state, Health::Well) || known.way.is_hindered())
    }

    /// The time at which [`Self::turn`] may change something.
    pub(crate) fn next(&self) -> Option<Instant> {
        let ways = self.nodes.values().map(|known| &known.way).chain(self.lacking.values());
        ways.filter(|_| !self.alone).filter_map(Hindrance::next).min()
    }

    /// True if the nodes and shards that other timers should take changed. `has_shards` tells whether any
    /// shard of a node is planned for this timer; `is_given` tells whether this shard is.
    pub(crate) fn turn(
        &mut self,
        now: Instant,
        has_shards: impl Fn(NodeId) -> bool,
        is_given: impl Fn(ShardId) -> bool,
    ) -> bool {
        if self.alone {
            return false;
        }
        self.nodes.iter_mut().for_each(|(&node, known)| known.way.turn(now, || has_shards(node)));
        self.lacking.iter_mut().for_each(|(&shard, way)| way.turn(now, || is_given(shard)));
        self.lacking.retain(|_, way| !way.is_over(now));
        let nodes = self.nodes.iter().filter(|(_, known)| known.way.is_hindered()).map(|(&node, _)| node);
        let shards = self.lacking.iter().filter(|(_, way)| way.is_hindered()).map(|(&shard, _)| shard);
        if self.hindered.nodes.iter().copied().eq(nodes.clone())
            && self.hindered.shards.iter().copied().eq(shards.clone())
        {
            return false;
        }
        self.hindered = Hindered { nodes: nodes.collect(), shards: shards.collect() };
        true
    }

    /// Returns true if other timers should take a shard, which is at this node.
    pub(crate) fn is_out_of_reach(&self, node: NodeId, shard: ShardId) -> bool {
        self.hindered.nodes.contains(&node) || self.hindered.shards.contains(&shard)
    }

    pub(crate) const fn unreached(&self) -> &BTreeSet<NodeId> {
        &self.hindered.nodes
    }

    pub(crate) fn missing(&self) -> usize {
        self.hindered.shards.len()
    }

    /// Records a failed call to a node that does not have the shard.
    pub(crate) fn lacks(&mut self, shard: ShardId, now: Instant) {
        self.lacking.entry(shard).or_insert(Hindrance::none()).failed(now);
    }

    pub(crate) fn has(&mut self, shard: ShardId, now: Instant) {
        if let Some(way) = self.lacking.get_mut(&shard) {
            way.answered(now);
        }
    }

    pub(crate) fn placed(&mut self, shard: ShardId) {
        self.lacking.remove(&shard);
    }

    /// Whatever Redis answers from now on.
    pub(crate) fn leave(&mut self) {
        self.alone = true;
    }

    /// At most one question is in flight, until [`Self::asked`].
    pub(crate) fn ask(&mut self, node: NodeId) -> bool {
        self.asking.insert(node)
    }

    pub(crate) fn asked(&mut self, node: NodeId) {
        self.asking.remove(&node);
    }

    pub(crate) fn forget(&mut self, node: NodeId) {
        self.nodes.remove(&node);
    }

    /// `name` is the node's name.
    pub(crate) fn failed(
        &mut self,
        (node, shard): (NodeId, ShardId),
        error: &Error,
        name: &str,
        now: Instant,
    ) -> Change {
        if !error.lacks_shard() {
            return self.unanswered(node, error, name, now);
        }
        self.lacks(shard, now);
        let known = self.known(node);
        if !matches!(known.state, Health::Missing(_)) {
            known.state = Health::Missing(error.to_string());
            events::shard_missing(shard, error, name);
        }
        Change::Nothing
    }

    /// As [`Self::failed`], for another timer's shard.
    pub(crate) fn unanswered(&mut self, node: NodeId, error: &Error, name: &str, now: Instant) -> Change {
        if error.lacks_shard() || is_on_the_move(error) {
            return Change::Nothing;
        }
        let known = self.known(node);
        known.way.failed(now);
        if !matches!(known.state, Health::Well) {
            return Change::Nothing;
        }
        known.state = Health::Silent { since: now };
        events::redis_lost(name, error);
        Change::Lost
    }

    /// Records that the node of this name answered a script that may write. `behind`: a shard could not be claimed yet.
    pub(crate) fn answered(&mut self, node: NodeId, name: &str, behind: bool, now: Instant) -> Change {
        let known = self.known(node);
        known.way.answered(now);
        let silent_since = match known.state {
            Health::Well => return Change::Nothing,
            // A single missing shard makes the timer unready, whatever the other shards answer.
            Health::Missing(_) if behind => return Change::Nothing,
            Health::Silent { since } => Some(since),
            Health::Missing(_) => None,
        };
        known.state = Health::Well;
        let Some(since) = silent_since else { return Change::Nothing };
        events::redis_back(name, now.saturating_duration_since(since));
        Change::Back
    }

    fn known(&mut self, node: NodeId) -> &mut NodeHealth {
        self.nodes.entry(node).or_insert(NodeHealth { state: Health::Well, way: Hindrance::none() })
    }
}

/// Returns true if a node answered that the shard is moving to another node: both nodes are well.
fn is_on_the_move(error: &Error) -> bool {
    matches!(error, Error::Redis { code, .. } if ["ASK", "MOVED", "TRYAGAIN"].contains(&code.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    const ONE: NodeId = NodeId(0);
    const OTHER: NodeId = NodeId(1);

    struct Scene {
        health: RedisHealth,
        start: Instant,
    }

    impl Scene {
        fn new(alone: bool) -> Self {
            let mut scene = Self { health: RedisHealth::new(alone), start: Instant::now() };
            scene.answers(ONE, 0);
            scene.answers(OTHER, 0);
            scene
        }

        fn at(&self, second: u64) -> Instant {
            self.start + Duration::from_secs(second)
        }

        fn answers(&mut self, node: NodeId, second: u64) -> Change {
            self.health.answered(node, "node", false, self.at(second))
        }

        fn fails(&mut self, node: NodeId, second: u64) -> Change {
            let error = Error::Unreachable { address: "node".to_owned(), why: "refused".to_owned() };
            self.health.unanswered(node, &error, "node", self.at(second))
        }

        fn all_fail(&mut self, second: u64) {
            for node in [ONE, OTHER] {
                self.fails(node, second);
            }
        }

        /// `None` without a change.
        fn turn(&mut self, second: u64, has_shards: bool) -> Option<Vec<NodeId>> {
            let changed = self.health.turn(self.at(second), |_| has_shards, |_| has_shards);
            changed.then(|| self.health.unreached().iter().copied().collect())
        }
    }

    #[test]
    fn a_dead_node_hinders_for_its_own_shards_alone() {
        let mut scene = Scene::new(false);
        assert_eq!(scene.fails(ONE, 1), Change::Lost);
        scene.answers(OTHER, 2);
        assert_eq!(scene.turn(3, true), None, "patience");
        assert_eq!(scene.turn(4, true), Some(vec![ONE]));
        for second in 5..30 {
            assert_eq!(scene.fails(ONE, second), Change::Nothing);
            scene.answers(OTHER, second);
            assert_eq!(scene.turn(second, true), None, "after {second} s");
        }
        assert!(scene.health.is_poor(ONE) && !scene.health.is_poor(OTHER));
        scene.fails(OTHER, 30);
        assert_eq!(scene.turn(33, true), Some(vec![ONE, OTHER]), "now neither answers");
    }

    #[test]
    fn a_node_that_answers_again_gets_its_shards_back_though_another_refuses_connections() {
        let mut scene = Scene::new(false);
        scene.all_fail(1);
        assert_eq!(scene.turn(4, true), Some(vec![ONE, OTHER]));
        for second in 4..9 {
            scene.fails(ONE, second);
            scene.answers(OTHER, second);
            assert_eq!(scene.turn(second, false), None, "after {second} s");
        }
        assert_eq!(scene.turn(9, false), Some(vec![ONE]), "steady for five seconds");
    }

    #[test]
    fn who_is_alone_has_nothing_to_say_however_long_nothing_is_answered() {
        let mut scene = Scene::new(true);
        scene.all_fail(1);
        assert_eq!(scene.health.next(), None);
        assert_eq!(scene.turn(60, true), None);
    }

    #[test]
    fn who_leaves_while_it_is_hindered_does_not_change_its_mind() {
        let mut scene = Scene::new(false);
        scene.all_fail(1);
        assert_eq!(scene.turn(4, true), Some(vec![ONE, OTHER]));
        scene.health.leave();
        scene.answers(ONE, 5);
        assert_eq!(scene.turn(60, true), None);
    }

    #[test]
    fn a_shard_that_its_node_does_not_have_goes_to_others_and_comes_back_when_it_is_placed_elsewhere() {
        let (mut scene, shard) = (Scene::new(false), ShardId::new(7));
        let missing = Error::Deployment("the shard has moved".to_owned());
        for second in 1..5 {
            scene.health.failed((ONE, shard), &missing, "node", scene.at(second));
            scene.answers(ONE, second);
        }
        assert_eq!(scene.turn(5, true), Some(vec![]), "the node itself is well");
        assert!(
            scene.health.is_out_of_reach(ONE, shard) && !scene.health.is_out_of_reach(ONE, ShardId::new(8))
        );
        scene.health.placed(shard);
        assert_eq!(scene.turn(6, false), Some(vec![]));
        assert!(!scene.health.is_out_of_reach(OTHER, shard));
    }
}
