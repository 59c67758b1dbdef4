//! The Redises that have the shards: a single Redis, or the masters of a cluster. Each node has its own clock, so each
//! is aimed at, guarded and held separately, and a slow node delays no other.

use crate::places::Places;
use crate::scheduling::{Aim, Guard, NodeId, Schedule};
use delayq_core::shard::{ShardCount, ShardId};
use delayq_core::time::UnixMillis;
use std::collections::BTreeMap;
use std::ops::{Index, IndexMut};
use std::time::{Duration, Instant};

/// Maximum network delay of a call before Redis's clock reads more than is believed possible; then the call is sent
/// again.
const ON_THE_WAY: Duration = Duration::from_millis(100);

/// All nodes.
pub struct Nodes {
    places: Places,
    version: u64,
    /// Includes nodes that are gone: a node may come back.
    all: Vec<Node>,
    homes: Vec<NodeId>,
    /// One shard of each node that has any.
    used: BTreeMap<NodeId, ShardId>,
    guard: Guard,
}

/// One Redis that has shards, or had some.
pub struct Node {
    /// The name among several Redises, or the address.
    pub name: String,
    /// When to send a call to the node.
    pub aim: Aim,
    /// Judges the clock of the node.
    pub guard: Guard,
}

/// A shard with a new node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moved {
    /// The shard.
    pub shard: ShardId,
    /// `None` if the shard is new.
    pub from: Option<NodeId>,
    /// The node that has the shard now.
    pub to: NodeId,
}

// === impl Nodes ===

impl Nodes {
    /// `guard` has seen no clock yet.
    pub fn new(places: Places, guard: Guard) -> Self {
        Self { places, version: 0, all: Vec::new(), homes: Vec::new(), used: BTreeMap::new(), guard }
    }

    /// Waits until a shard may have moved. Cancel safe.
    pub async fn changed(&mut self) {
        self.places.changed().await;
    }

    /// Returns true if a shard may have moved since the last [`Self::place`].
    pub fn is_outdated(&self) -> bool {
        self.places.version() != self.version
    }

    /// The places, and their version at the last [`Self::place`]: for [`Trip::of`](super::trip::Trip::of).
    pub fn placed(&self) -> (Places, u64) {
        (self.places.clone(), self.version)
    }

    /// The version of the places at the last [`Self::place`].
    pub const fn version(&self) -> u64 {
        self.version
    }

    /// Returns the moved and the new shards; a hold moves with its shard.
    ///
    /// A new node is expected to have the clock of the node that its first shard comes from: the new node may be the
    /// replica that took over.
    pub fn place<K>(&mut self, shards: ShardCount, schedule: &mut Schedule<K>, now: Instant) -> Vec<Moved> {
        self.version = self.places.version();
        let places = self.places.clone();
        self.place_by(|shard| places.node(shard), shards, schedule, now)
    }

    fn place_by<K>(
        &mut self,
        name: impl Fn(ShardId) -> String,
        shards: ShardCount,
        schedule: &mut Schedule<K>,
        now: Instant,
    ) -> Vec<Moved> {
        let mut moved = Vec::new();
        for shard in shards.shards() {
            let from = self.homes.get(usize::from(shard.get())).copied();
            let to = self.node(name(shard), from, now);
            if from == Some(to) {
                continue;
            }
            match from {
                Some(_) => self.homes[usize::from(shard.get())] = to,
                None => self.homes.push(to),
            }
            schedule.place(shard, to);
            moved.push(Moved { shard, from, to });
        }
        self.used.clear();
        for (&node, shard) in self.homes.iter().zip(0..) {
            self.used.entry(node).or_insert(ShardId::new(shard));
        }
        moved
    }

    fn node(&mut self, name: String, from: Option<NodeId>, now: Instant) -> NodeId {
        if let Some(at) = self.all.iter().position(|node| node.name == name) {
            return NodeId(at);
        }
        let guard = from.map_or_else(|| self.guard.clone(), |from| self[from].guard.heir());
        self.all.push(Node { name, aim: Aim::new(now), guard });
        NodeId(self.all.len() - 1)
    }

    /// The node of a shard.
    pub fn of(&self, shard: ShardId) -> NodeId {
        self.homes.get(usize::from(shard.get())).copied().unwrap_or_default()
    }

    /// One shard of each node that has any.
    pub const fn in_use(&self) -> &BTreeMap<NodeId, ShardId> {
        &self.used
    }

    /// Returns true if a node has any shard.
    pub fn is_used(&self, node: NodeId) -> bool {
        self.used.contains_key(&node)
    }

    /// Groups shards by node, so that a call to one node waits for no other.
    pub fn apart(&self, shards: &[ShardId]) -> BTreeMap<NodeId, Vec<ShardId>> {
        let mut nodes = BTreeMap::<NodeId, Vec<ShardId>>::new();
        for &shard in shards {
            nodes.entry(self.of(shard)).or_default().push(shard);
        }
        nodes
    }

    /// Every node, also those without shards.
    pub fn numbered(&self) -> impl Iterator<Item = (NodeId, &Node)> {
        self.all.iter().enumerate().map(|(n, node)| (NodeId(n), node))
    }

    /// Returns true if the clock of any node with shards is not trusted.
    pub fn is_any_jumped(&self) -> bool {
        self.used.keys().any(|&node| self[node].guard.is_jumped())
    }

    /// The latest reading of a node's clock when a call sent now runs; `None` before the first comparison.
    pub fn latest(&self, node: NodeId, now: Instant) -> Option<UnixMillis> {
        self[node].guard.latest(now, ON_THE_WAY)
    }

    /// How long a message has been due, by the clock of its node; zero if not yet due, and before the node's first
    /// answer.
    pub fn overdue(&self, node: NodeId, due: UnixMillis, now: Instant) -> Duration {
        positive(self.overdue_us(node, due, now))
    }

    /// The time until a message is due, by the clock of its node; zero if due, and before the node's first answer.
    pub fn until(&self, node: NodeId, due: UnixMillis, now: Instant) -> Duration {
        positive(-self.overdue_us(node, due, now))
    }

    fn overdue_us(&self, node: NodeId, due: UnixMillis, now: Instant) -> i128 {
        let reach = self.all.get(node.0).and_then(|node| node.aim.reach_us(now));
        reach.map_or(0, |reach| i128::from(reach) - i128::from(due.get()) * 1000)
    }

    /// Records that an alarm set to `aimed` woke the loop at `woken`.
    pub fn woke(&mut self, aimed: Instant, woken: Instant) {
        self.all.iter_mut().for_each(|node| node.aim.woke(aimed, woken));
    }
}

fn positive(us: i128) -> Duration {
    Duration::from_micros(u64::try_from(us.max(0)).unwrap_or(u64::MAX))
}

impl Index<NodeId> for Nodes {
    type Output = Node;

    fn index(&self, node: NodeId) -> &Node {
        &self.all[node.0]
    }
}

impl IndexMut<NodeId> for Nodes {
    fn index_mut(&mut self, node: NodeId) -> &mut Node {
        &mut self.all[node.0]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::{Client, Settings};
    use crate::clock;
    use crate::owner::Owner;
    use crate::scheduling::{Comparison, Found, Hold};
    use delayq_core::time::UnixMicros;

    const SHARDS: [ShardId; 2] = [ShardId::new(0), ShardId::new(1)];
    const SECOND: Duration = Duration::from_secs(1);

    struct Scene {
        nodes: Nodes,
        schedule: Schedule,
        start: Instant,
    }

    impl Scene {
        fn new(names: [&str; 2]) -> Self {
            let (start, client) = (clock::steady(), Client::new(Settings::new("redis://127.0.0.1:1")));
            let nodes = Nodes::new(Owner::new(client).places(), Guard::new(start, SECOND, SECOND));
            let mut scene = Self { nodes, schedule: Schedule::new(10, Duration::ZERO), start };
            scene.place(names);
            SHARDS.into_iter().for_each(|shard| scene.schedule.own(shard, 1, Some(UnixMillis::new(1))));
            scene
        }

        fn place(&mut self, names: [&str; 2]) -> Vec<Moved> {
            let name = |shard: ShardId| names[usize::from(shard.get())].to_owned();
            self.nodes.place_by(name, ShardCount::new(2).unwrap(), &mut self.schedule, self.start)
        }

        /// At second `at`, `ahead` seconds ahead.
        fn reads(&mut self, shard: ShardId, at: u64, ahead: u64) {
            let (node, sent) = (self.nodes.of(shard), self.start + SECOND * at as u32);
            let ran = UnixMicros((1_000 + at + ahead) * 1_000_000);
            self.nodes[node].guard.compare(Comparison { sent, ran, answered: sent });
            self.schedule.jump(node, self.nodes[node].guard.is_jumped());
        }

        fn pumped(&mut self) -> Vec<ShardId> {
            let rounds = self.schedule.rounds(self.start, |_, _| true);
            rounds.into_iter().flat_map(|round| round.shards).map(|(shard, _)| shard).collect()
        }

        /// True for a hold that is set, false for a hold that ends.
        fn holds(&mut self, shard: ShardId, at: u64) -> Vec<(ShardId, bool)> {
            let (node, now) = (self.nodes.of(shard), self.start + SECOND * at as u32);
            let holds = self.schedule.holds(node, self.nodes[node].guard.is_proven(now));
            holds.into_iter().map(|Hold { shard, on, .. }| (shard, on)).collect()
        }
    }

    #[test]
    fn a_held_shard_that_moves_stays_held_and_is_let_go_at_its_new_node() {
        let [moves, stays] = SHARDS;
        let mut scene = Scene::new(["one", "one"]);
        let one = scene.nodes.of(moves);
        assert_eq!(scene.pumped(), SHARDS);
        let now = UnixMillis::new(1);
        let held = Found { next_due: Some(now), more: false, now, early: true, held: Some(true) };
        scene.schedule.answered((one, moves), held, scene.start);
        scene.schedule.answered((one, stays), Found { held: None, more: true, ..held }, scene.start);
        scene.place(["other", "one"]);
        assert_eq!(scene.pumped(), [stays]);
        scene.reads(moves, 0, 0);
        scene.reads(moves, 2, 0);
        assert_eq!(scene.holds(moves, 2), [(moves, false)]);
    }

    #[test]
    fn what_is_due_is_judged_by_the_clock_of_its_own_node() {
        let mut scene = Scene::new(["one", "ahead"]);
        let now = scene.start;
        for (shard, ms) in SHARDS.into_iter().zip([100_000, 3_700_000]) {
            let node = scene.nodes.of(shard);
            let (soon, long_ago) = (UnixMillis::new(ms + 1_000), UnixMillis::new(ms - 1_000));
            assert_eq!(scene.nodes.until(node, soon, now), Duration::ZERO, "its clock is not known");
            scene.nodes[node].aim.ran(now, UnixMicros(ms * 1000));
            assert_eq!(scene.nodes.until(node, soon, now), SECOND);
            assert_eq!(scene.nodes.overdue(node, soon, now), Duration::ZERO);
            assert_eq!(scene.nodes.overdue(node, long_ago, now), SECOND);
        }
    }

    #[test]
    fn a_shard_that_moves_to_a_node_whose_clock_jumped_is_held_there() {
        let [moves, stays] = SHARDS;
        let mut scene = Scene::new(["one", "jumped"]);
        scene.reads(stays, 0, 0);
        scene.reads(stays, 1, 100);
        assert_eq!(scene.holds(stays, 1), [(stays, true)]);
        scene.place(["jumped", "jumped"]);
        assert!(!scene.pumped().contains(&moves));
        assert_eq!(scene.holds(moves, 1), [(moves, true)]);
    }
}
