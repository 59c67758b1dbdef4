//! The Redises that have the shards: the one, or the masters of a cluster. Each has a clock of its own, so each is aimed
//! at, guarded and held by itself, and a slow one delays no other.

use crate::aim::Aim;
use crate::clock_watch::ClockWatch;
use crate::guard::Guard;
use crate::node_id::NodeId;
use delayq::protocol::{Places, ShardId};
use delayq::{ShardCount, UnixMillis};
use std::collections::BTreeMap;
use std::ops::{Index, IndexMut};
use std::time::{Duration, Instant};

/// What is known of all nodes.
pub(crate) struct Nodes {
    places: Places,
    /// The version of the places that `homes` is of.
    version: u64,
    /// Those that are gone included: one may come back.
    all: Vec<Node>,
    /// Of each shard of the deployment its node.
    homes: Vec<NodeId>,
    /// Those that have any shard of the deployment, each with one of its shards.
    used: BTreeMap<NodeId, ShardId>,
    /// A guard that has seen no clock.
    guard: Guard,
}

/// One Redis.
pub(crate) struct Node {
    /// Its address.
    pub(crate) name: String,
    pub(crate) aim: Aim,
    pub(crate) clock: ClockWatch,
}

/// A shard that has another node now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Moved {
    pub(crate) shard: ShardId,
    /// `None`: it is new.
    pub(crate) from: Option<NodeId>,
    pub(crate) to: NodeId,
}

// === impl Nodes ===

impl Nodes {
    /// `guard` has seen no clock yet.
    pub(crate) fn new(places: Places, guard: Guard) -> Self {
        Self { places, version: 0, all: Vec::new(), homes: Vec::new(), used: BTreeMap::new(), guard }
    }

    /// Waits until a shard may have moved. Cancel safe.
    pub(crate) async fn changed(&mut self) {
        self.places.changed().await;
    }

    /// Whether shards may have moved since they were placed.
    pub(crate) fn is_outdated(&self) -> bool {
        self.places.version() != self.version
    }

    /// By which version of the places the shards are placed.
    pub(crate) const fn version(&self) -> u64 {
        self.version
    }

    /// Places the shards of the deployment: those that moved.
    ///
    /// A node that is new is expected to have the clock of the one that its first shard comes from: it may be the replica
    /// that took over.
    pub(crate) fn place(&mut self, shards: ShardCount, now: Instant) -> Vec<Moved> {
        self.version = self.places.version();
        let mut moved = Vec::new();
        for shard in shards.shards() {
            let from = self.homes.get(usize::from(shard.get())).copied();
            let to = self.node(self.places.node(shard), from, now);
            if from == Some(to) {
                continue;
            }
            match from {
                Some(_) => self.homes[usize::from(shard.get())] = to,
                None => self.homes.push(to),
            }
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
        let clock = match from {
            Some(from) => self[from].clock.heir(),
            None => ClockWatch::new(self.guard.clone()),
        };
        self.all.push(Node { name, aim: Aim::new(now), clock });
        NodeId(self.all.len() - 1)
    }

    /// The node that has a shard.
    pub(crate) fn of(&self, shard: ShardId) -> NodeId {
        self.homes.get(usize::from(shard.get())).copied().unwrap_or_default()
    }

    /// Those that have any shard of the deployment, each with one of its shards.
    pub(crate) const fn in_use(&self) -> &BTreeMap<NodeId, ShardId> {
        &self.used
    }

    /// These shards by their nodes: a call to one of them waits for no other.
    pub(crate) fn apart(&self, shards: &[ShardId]) -> BTreeMap<NodeId, Vec<ShardId>> {
        let mut nodes = BTreeMap::<NodeId, Vec<ShardId>>::new();
        for &shard in shards {
            nodes.entry(self.of(shard)).or_default().push(shard);
        }
        nodes
    }

    pub(crate) fn numbered(&mut self) -> impl Iterator<Item = (NodeId, &mut Node)> {
        self.all.iter_mut().enumerate().map(|(n, node)| (NodeId(n), node))
    }

    /// Whether the clock of any node with shards is not trusted.
    pub(crate) fn is_any_jumped(&self) -> bool {
        self.used.keys().any(|&node| self[node].clock.is_jumped())
    }

    /// Whether any shard is known to be held.
    pub(crate) fn hold_any(&self) -> bool {
        self.all.iter().any(|node| node.clock.holds_any())
    }

    /// For how long something has been due, by the clock of its node; zero for nothing, and before it answered.
    pub(crate) fn overdue(&self, node: NodeId, due: UnixMillis, now: Instant) -> Duration {
        let reach = self.all.get(node.0).and_then(|node| node.aim.reach_us(now));
        let due = i64::try_from(due.get()).ok().and_then(|due| due.checked_mul(1000));
        let us = reach.zip(due).and_then(|(reach, due)| reach.checked_sub(due));
        Duration::from_micros(us.and_then(|us| u64::try_from(us).ok()).unwrap_or(0))
    }

    /// The clock of the first node that has answered.
    pub(crate) fn redis_ms(&self, now: Instant) -> Option<UnixMillis> {
        let us = self.all.iter().find_map(|node| node.aim.reach_us(now))?;
        Some(UnixMillis::new(u64::try_from(us).unwrap_or(0) / 1000))
    }

    /// An alarm that was set to `aimed` woke the loop at `woken`.
    pub(crate) fn woke(&mut self, aimed: Instant, woken: Instant) {
        self.all.iter_mut().for_each(|node| node.aim.woke(aimed, woken));
    }
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
