//! Decides when to pump and when to poll each shard, without a clock or a connection.
//!
//! Calls go out in two pipelines, so that a flood in one shard delays no other shard. The *light* pipeline carries
//! every due shard, with few ids each. A shard with more due ids than that moves to the *heavy* pipeline: alone, with a
//! full batch, in turns with the other heavy shards. Redis runs the scripts of one pipeline without a pause, so the
//! sizes of the pipelines bound the wait of every other client. Polls use the light pipeline when no light call is in
//! flight, and a few polls go along with due shards: a due shard never waits for a poll. Each node of a cluster has its
//! own pipelines.

mod holds;
mod queues;
mod round;
mod shard;

pub use holds::Hold;
pub use round::{Found, NextRounds, Pipeline, Round};

use super::node_id::NodeId;
use delayq_core::shard::ShardId;
use delayq_core::time::UnixMillis;
use queues::{QueuePlaces, Queues};
use shard::{Shard, earlier};
use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Unbounded};
use std::time::{Duration, Instant};

/// Maximum shards in one light pipeline: some 15 µs of Redis's time each while nothing is due.
const LIGHT_SHARDS: usize = 64;
/// Maximum ids in one light pipeline, over all its shards: some 0.1 ms of Redis's time, besides the calls.
const LIGHT_IDS: u16 = 128;
/// Maximum light pipelines in flight: one at work and one on the way, so that a due shard does not wait for an answer
/// about other shards.
const LIGHT_PIPELINES: usize = 2;
/// Maximum polls in one light pipeline: alone, and alongside due shards.
const POLLS_ALONE: usize = 32;
const POLLS_BESIDE: usize = 8;
/// Maximum heavy calls in flight. Redis runs every command that has arrived from one client before serving the next
/// client, so a second heavy call would double every other client's wait. While this call is on the way, another
/// timer's call is at work.
const HEAVY_CALLS: usize = 1;

/// The owned shards, and the calls in flight.
///
/// This is the one map of the owned shards: `K` is everything else that the program keeps for each owned shard, empty
/// when a shard is owned first and dropped with the shard.
#[derive(Clone, Debug)]
pub struct Schedule<K = ()> {
    shards: BTreeMap<ShardId, Shard<K>>,
    /// The node of each shard of the deployment, owned or not; the first node if a shard has no entry.
    homes: BTreeMap<ShardId, NodeId>,
    ways: BTreeMap<NodeId, Way>,
    /// Shards whose claim is in flight, with the earliest wake received meanwhile: the claim's answer may be older than
    /// the wake.
    expected: BTreeMap<ShardId, Option<UnixMillis>>,
    batch: u16,
    resolution: Duration,
    turn: u64,
}

/// The shards queued for one node, and the calls in flight to the node.
#[derive(Clone, Debug, Default)]
struct Way {
    queues: Queues,
    light_out: usize,
    heavy_out: usize,
    light_sent: Option<Instant>,
    /// The node's clock is not trusted: no pump is sent.
    jumped: bool,
}

// === impl Schedule ===

impl<K> Schedule<K> {
    /// Starts without shards. `batch` is the maximum ids of one call; wake-ups closer than `resolution` are merged.
    pub fn new(batch: u16, resolution: Duration) -> Self {
        Self {
            shards: BTreeMap::new(),
            homes: BTreeMap::new(),
            ways: BTreeMap::new(),
            expected: BTreeMap::new(),
            batch,
            resolution,
            turn: 0,
        }
    }

    /// Assigns a shard to a node; a hold moves with its shard. A call in flight to the previous node is abandoned.
    pub(crate) fn place(&mut self, id: ShardId, node: NodeId) {
        self.homes.insert(id, node);
        let Some(mut shard) = self.shards.remove(&id) else { return };
        self.requeue(shard.node, id, &QueuePlaces::of(&shard), &QueuePlaces::default());
        (shard.node, shard.jumped) = (node, self.is_jumped(node));
        (shard.out, shard.hold_sent, shard.resting, shard.poll) = (None, None, None, true);
        self.requeue(node, id, &QueuePlaces::default(), &QueuePlaces::of(&shard));
        self.shards.insert(id, shard);
    }

    /// Records the wakes of a shard from now on, while its claim is in flight.
    pub fn expect(&mut self, shard: ShardId) {
        if !self.shards.contains_key(&shard) {
            self.expected.entry(shard).or_default();
        }
    }

    /// Owns a shard under this epoch, for the first time or again.
    pub fn own(&mut self, id: ShardId, epoch: u64, next_due: Option<UnixMillis>)
    where
        K: Default,
    {
        let known = self.shards.remove(&id);
        let before = known.as_ref().map_or(QueuePlaces::default(), QueuePlaces::of);
        let node = self.homes.get(&id).copied().unwrap_or_default();
        let mut owned = Shard::new(node, epoch, self.turn);
        if let Some(known) = known {
            (owned.out, owned.woken, owned.kept) = (known.out, known.woken, known.kept);
            (owned.held, owned.hold_sent) = (known.held, known.hold_sent);
        }
        owned.woken = earlier(owned.woken, self.expected.remove(&id).flatten());
        owned.next_due = earlier(next_due, owned.woken);
        owned.jumped = self.is_jumped(node);
        self.requeue(node, id, &before, &QueuePlaces::of(&owned));
        self.shards.insert(id, owned);
    }

    /// Drops a shard with all that is kept for it, and sends no further calls for it. Returns true if the shard was
    /// owned.
    pub fn drop(&mut self, id: ShardId) -> bool {
        self.expected.remove(&id);
        let Some(shard) = self.shards.remove(&id) else { return false };
        self.requeue(shard.node, id, &QueuePlaces::of(&shard), &QueuePlaces::default());
        true
    }

    /// Stops a shard until its ownership is renewed or confirmed.
    pub fn doubt(&mut self, id: ShardId, doubted: bool) {
        self.edit(id, |shard| shard.stop(|shard| shard.doubted = doubted));
    }

    /// Handles a wake, or another answer about the shard: a message is due at `due`.
    pub fn wake(&mut self, id: ShardId, due: UnixMillis) {
        if let Some(woken) = self.expected.get_mut(&id) {
            *woken = earlier(*woken, Some(due));
        }
        self.edit(id, |shard| {
            shard.next_due = earlier(shard.next_due, Some(due));
            if shard.out.is_some() {
                shard.woken = earlier(shard.woken, Some(due));
            }
        });
    }

    /// Polls a shard, even if nothing is due.
    pub fn poll(&mut self, id: ShardId) {
        self.edit(id, |shard| shard.poll = true);
    }

    /// Returns the pipelines to send now. `finds` tells whether a call sent now to a node runs at or after a due time.
    pub fn rounds(&mut self, now: Instant, finds: impl Fn(NodeId, UnixMillis) -> bool) -> Vec<Round> {
        let mut rounds = Vec::new();
        let mut next = self.ways.first_key_value().map(|(&node, _)| node);
        while let Some(node) = next {
            self.rounds_to(node, now, |due| finds(node, due), &mut rounds);
            next = self.ways.range((Excluded(node), Unbounded)).next().map(|(&node, _)| node);
        }
        rounds
    }

    fn rounds_to(
        &mut self,
        node: NodeId,
        now: Instant,
        finds: impl Fn(UnixMillis) -> bool,
        rounds: &mut Vec<Round>,
    ) {
        while let Some(rested) = self.ways[&node].queues.rested(now) {
            self.edit(rested, |shard| shard.resting = None);
        }
        while self.ways[&node].heavy_out < HEAVY_CALLS
            && let Some(shard) = self.ways[&node].queues.heavy()
        {
            rounds.push(self.send((node, Pipeline::Heavy), &[(shard, true)], self.batch, now));
        }
        let way = &self.ways[&node];
        if way.light_out < LIGHT_PIPELINES && self.light_from(way).is_none_or(|from| now >= from) {
            let chosen = self.light(way, &finds);
            if !chosen.is_empty() {
                let share = usize::from(LIGHT_IDS) / chosen.len();
                let limit =
                    u16::try_from(share).unwrap_or(LIGHT_IDS).clamp(8, self.batch.max(8)).min(self.batch);
                rounds.push(self.send((node, Pipeline::Light), &chosen, limit, now));
            }
        }
    }

    /// Returns when to ask for rounds to each node again, if no wake or answer comes before.
    pub fn next(&self, now: Instant) -> impl Iterator<Item = (NodeId, NextRounds)> {
        self.ways.iter().map(move |(&node, way)| (node, self.next_to(way, now)))
    }

    fn next_to(&self, way: &Way, now: Instant) -> NextRounds {
        let not_before = self.light_from(way);
        if way.light_out >= LIGHT_PIPELINES {
            return NextRounds { due: None, not_before, anyway: None };
        }
        // Polls alone wait for the answer of the light pipeline in flight: every answer asks for rounds again.
        let polls = way.light_out == 0 && way.queues.has_polls();
        let poll = polls.then(|| not_before.map_or(now, |from| from.max(now)));
        let anyway = [poll, way.queues.first_rest()].into_iter().flatten().min();
        NextRounds { due: way.queues.first_due(), not_before, anyway }
    }

    /// Handles the answer of a node for a shard. Returns the things kept for the shard if the shard is still owned and
    /// still at that node: otherwise the answer is stale.
    pub fn answered(&mut self, (node, id): (NodeId, ShardId), answer: Found, now: Instant) -> Option<&mut K> {
        let shard = self.shards.get_mut(&id).filter(|shard| shard.node == node)?;
        let way = self.ways.entry(node).or_default();
        if answer.early {
            // The time left until the message is due is shorter than merging is worth.
            way.light_sent = None;
        }
        let before = QueuePlaces::of(shard);
        shard.answered(answer, now);
        way.queues.replace(id, &before, &QueuePlaces::of(shard));
        Some(&mut shard.kept)
    }

    /// Rests a shard after a failed call to a node. Returns the things kept for the shard if the shard is still owned
    /// and still at that node.
    pub fn failed(&mut self, (node, id): (NodeId, ShardId), now: Instant) -> Option<&mut K> {
        let shard = self.shards.get_mut(&id).filter(|shard| shard.node == node)?;
        let before = QueuePlaces::of(shard);
        shard.failed(now);
        self.ways.entry(node).or_default().queues.replace(id, &before, &QueuePlaces::of(shard));
        Some(&mut shard.kept)
    }

    /// Ends a pipeline; each of its shards was answered, failed, or dropped meanwhile.
    pub fn returned(&mut self, node: NodeId, pipeline: Pipeline) {
        let way = self.ways.entry(node).or_default();
        match pipeline {
            Pipeline::Light => way.light_out = way.light_out.saturating_sub(1),
            Pipeline::Heavy => way.heavy_out = way.heavy_out.saturating_sub(1),
        }
    }

    /// Returns true if the last call for a shard was sent for a due time, and not only as a poll.
    pub fn was_due(&self, shard: ShardId) -> bool {
        self.shards.get(&shard).is_some_and(|shard| shard.sent_for_due)
    }

    /// The epoch under which a shard is owned.
    pub fn epoch(&self, shard: ShardId) -> Option<u64> {
        self.shards.get(&shard).map(|shard| shard.epoch)
    }

    /// Returns true if a shard is owned and its ownership is not in doubt.
    pub fn is_certain(&self, shard: ShardId) -> bool {
        self.shards.get(&shard).is_some_and(|shard| !shard.doubted)
    }

    /// Every owned shard.
    pub(crate) fn owned(&self) -> impl Iterator<Item = ShardId> {
        self.shards.keys().copied()
    }

    /// Every owned shard at a node.
    pub fn owned_at(&self, node: NodeId) -> impl Iterator<Item = ShardId> {
        self.shards.iter().filter(move |(_, shard)| shard.node == node).map(|(&id, _)| id)
    }

    /// The number of owned shards.
    pub fn count(&self) -> usize {
        self.shards.len()
    }

    /// The things kept for an owned shard.
    pub fn kept(&self, shard: ShardId) -> Option<&K> {
        self.shards.get(&shard).map(|shard| &shard.kept)
    }

    /// The things kept for an owned shard, to change.
    pub fn kept_mut(&mut self, shard: ShardId) -> Option<&mut K> {
        self.shards.get_mut(&shard).map(|shard| &mut shard.kept)
    }

    /// The things kept for each owned shard.
    pub fn all_kept(&self) -> impl Iterator<Item = (ShardId, &K)> + Clone {
        self.shards.iter().map(|(&id, shard)| (id, &shard.kept))
    }

    /// At most `most` owned shards behind `last`, by number; the least shard follows the greatest.
    pub(crate) fn after(&self, last: Option<ShardId>, most: usize) -> Vec<ShardId> {
        let Some(last) = last else { return self.owned().take(most).collect() };
        let round = self.shards.range((Excluded(last), Unbounded)).chain(self.shards.range(..=last));
        round.map(|(&shard, _)| shard).take(most).collect()
    }

    /// The earliest due time of each node, including held shards. A doubted shard has a newer owner, which answers for
    /// the shard.
    pub fn earliest(&self) -> BTreeMap<NodeId, UnixMillis> {
        let mut nodes = BTreeMap::new();
        for shard in self.shards.values().filter(|shard| !shard.doubted) {
            if let Some(due) = shard.next_due {
                nodes
                    .entry(shard.node)
                    .and_modify(|first: &mut UnixMillis| *first = due.min(*first))
                    .or_insert(due);
            }
        }
        nodes
    }

    fn light_from(&self, way: &Way) -> Option<Instant> {
        way.light_sent.map(|sent| sent + self.resolution)
    }

    /// Chooses the shards of a light pipeline, each with true if it is due.
    fn light(&self, way: &Way, finds: impl Fn(UnixMillis) -> bool) -> Vec<(ShardId, bool)> {
        let due = way.queues.due().take_while(|(due, _)| finds(*due)).take(LIGHT_SHARDS);
        let mut chosen: Vec<(ShardId, bool)> = due.map(|(_, id)| (id, true)).collect();
        let polls = match (chosen.is_empty(), way.light_out) {
            (true, 0) => POLLS_ALONE,
            (true, _) => 0,
            (false, _) => POLLS_BESIDE.min(LIGHT_SHARDS - chosen.len()),
        };
        // A due shard is polled by its pump as well.
        let only_polls = |id: &ShardId| self.shards[id].next_due.is_none_or(|due| !finds(due));
        chosen.extend(way.queues.polls().filter(only_polls).take(polls).map(|id| (id, false)));
        chosen
    }

    /// Changes a shard, and moves the shard between queues.
    fn edit(&mut self, id: ShardId, change: impl FnOnce(&mut Shard<K>)) {
        let Some(shard) = self.shards.get_mut(&id) else { return };
        let before = QueuePlaces::of(shard);
        change(shard);
        self.ways.entry(shard.node).or_default().queues.replace(id, &before, &QueuePlaces::of(shard));
    }

    /// Moves a shard from one place in the queues of its node to another.
    fn requeue(&mut self, node: NodeId, id: ShardId, before: &QueuePlaces, now: &QueuePlaces) {
        self.ways.entry(node).or_default().queues.replace(id, before, now);
    }

    fn send(
        &mut self,
        (node, pipeline): (NodeId, Pipeline),
        shards: &[(ShardId, bool)],
        limit: u16,
        now: Instant,
    ) -> Round {
        let way = self.ways.entry(node).or_default();
        match pipeline {
            Pipeline::Light => (way.light_out, way.light_sent) = (way.light_out + 1, Some(now)),
            Pipeline::Heavy => way.heavy_out += 1,
        }
        self.turn += 1;
        let mut round = Round { node, pipeline, shards: Vec::with_capacity(shards.len()), limit };
        for &(id, due) in shards {
            let turn = self.turn;
            self.edit(id, |shard| {
                (shard.out, shard.poll, shard.resting, shard.turn) = (Some(pipeline), false, None, turn);
                shard.sent_for_due = due;
            });
            round.shards.push((id, self.epoch(id)));
        }
        round
    }
}

#[cfg(test)]
mod tests;
