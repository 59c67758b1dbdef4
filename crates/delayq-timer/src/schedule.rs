//! Which shards to pump now, and when to poll again: the timer's decisions, without a clock or a connection.
//!
//! Calls go out in two pipelines, so that one flood delays nobody else. What is due goes by the *light* pipeline: every due
//! shard in one pipeline, with few ids each. A shard that had more than that goes by the *heavy* lane, alone and with
//! a full batch, in turns with the other heavy ones. Redis runs one pipeline's scripts without a pause between, so the
//! pipelines' sizes bound what any other client waits. Polls go by the light pipeline when nothing else does, or a few alongside
//! what is due: nothing due waits for a poll. Each node of a cluster has pipelines of its own.

mod queues;
mod round;

pub(crate) use round::{Found, Next, Pipeline, Round};

use crate::node_id::NodeId;
use delayq::UnixMillis;
use delayq::protocol::ShardId;
use queues::{Place, Queues};
use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Unbounded};
use std::time::{Duration, Instant};

/// Shards in one light pipeline: some 15 µs of Redis's time each while nothing is due.
const LIGHT_SHARDS: usize = 64;
/// Ids in one light pipeline, over all its shards: some 0.1 ms of Redis's time, besides the calls themselves.
const LIGHT_IDS: u16 = 128;
/// Light pipelines under way at once: one at work, one on its way, so that no due time waits for an answer about others.
const LIGHT_PIPELINES: usize = 2;
/// Polls in one light pipeline: alone, and alongside shards that are due.
const POLLS_ALONE: usize = 32;
const POLLS_BESIDE: usize = 8;
/// Heavy calls under way at once: Redis runs all that has arrived of one client before it serves another, so that a second
/// one would double what everybody else waits. While this one is on its way, another timer's is at work.
const HEAVY_CALLS: usize = 1;
/// How long to rest before trying a shard again that failed; doubled each time.
const FIRST_RETRY: Duration = Duration::from_millis(20);
const LONGEST_RETRY: Duration = Duration::from_secs(1);
/// How long to rest where an answer says that what is due stayed where it was.
const STUCK_RETRY: Duration = Duration::from_millis(5);

/// What is known of the shards that are owned, and what is under way.
#[derive(Clone, Debug)]
pub(crate) struct Schedule {
    shards: BTreeMap<ShardId, Shard>,
    /// Of the shards of the deployment, owned or not, the node; the first, where none is named.
    homes: BTreeMap<ShardId, NodeId>,
    ways: BTreeMap<NodeId, Way>,
    /// Shards that are being claimed, and the earliest wake woken meanwhile: the claim's answer may be older than it.
    expected: BTreeMap<ShardId, Option<UnixMillis>>,
    batch: u16,
    resolution: Duration,
    turn: u64,
}

/// What waits for one node, and what is under way to it.
#[derive(Clone, Debug, Default)]
struct Way {
    queues: Queues,
    light_out: usize,
    heavy_out: usize,
    light_sent: Option<Instant>,
}

#[derive(Clone, Debug)]
struct Shard {
    epoch: u64,
    node: NodeId,
    /// The earliest time something is due; lowered by wakes, replaced by answers.
    next_due: Option<UnixMillis>,
    /// The earliest wake woken while a call was out: the call's answer may be older than it.
    woken: Option<UnixMillis>,
    out: Option<Pipeline>,
    /// Whether to poll, whatever is due.
    poll: bool,
    /// Whether the last call was sent for a due time, and not only to poll.
    sent_for_due: bool,
    more: bool,
    resting: Option<Instant>,
    failures: u32,
    /// Not pumped until it is let go.
    held: bool,
    /// Not pumped until it is owned again.
    doubted: bool,
    turn: u64,
}

// === impl Schedule ===

impl Schedule {
    /// No shards. `batch` is the most ids of one call, wake-ups closer than `resolution` are merged.
    pub(crate) fn new(batch: u16, resolution: Duration) -> Self {
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

    /// A shard is at this node from now on, and held there or not. What is out for it went to another one, and is waited for
    /// no more.
    pub(crate) fn place(&mut self, id: ShardId, node: NodeId, held: bool) {
        self.homes.insert(id, node);
        let Some(mut shard) = self.shards.remove(&id) else { return };
        self.requeue(&shard, id, &Place::of(&shard), &Place::default());
        (shard.node, shard.held, shard.out, shard.resting, shard.poll) = (node, held, None, None, true);
        self.requeue(&shard, id, &Place::default(), &Place::of(&shard));
        self.shards.insert(id, shard);
    }

    /// A shard is being claimed: what is woken of it counts from now on.
    pub(crate) fn expect(&mut self, shard: ShardId) {
        if !self.shards.contains_key(&shard) {
            self.expected.entry(shard).or_default();
        }
    }

    /// A shard is owned under this epoch, for the first time or again.
    pub(crate) fn own(&mut self, id: ShardId, epoch: u64, next_due: Option<UnixMillis>) {
        let known = self.shards.get(&id);
        let (out, woken) = known.map_or((None, None), |known| (known.out, known.woken));
        let before = known.map_or(Place::default(), Place::of);
        let woken = earlier(woken, self.expected.remove(&id).flatten());
        let owned = Shard {
            epoch,
            node: self.homes.get(&id).copied().unwrap_or_default(),
            next_due: earlier(next_due, woken),
            woken,
            out,
            poll: false,
            sent_for_due: false,
            more: false,
            resting: None,
            failures: 0,
            held: false,
            doubted: false,
            turn: self.turn,
        };
        self.requeue(&owned, id, &before, &Place::of(&owned));
        self.shards.insert(id, owned);
    }

    /// Lets a shard go: nothing is sent for it any more. Whether a call is still out for it.
    pub(crate) fn drop(&mut self, id: ShardId) -> bool {
        self.expected.remove(&id);
        let Some(shard) = self.shards.remove(&id) else { return false };
        self.requeue(&shard, id, &Place::of(&shard), &Place::default());
        shard.out.is_some()
    }

    /// Holds a shard until it is let go, or lets it go.
    pub(crate) fn hold(&mut self, id: ShardId, held: bool) {
        self.edit(id, |shard| {
            shard.poll |= shard.held && !held;
            shard.held = held;
        });
    }

    /// Stops a shard until it is owned again, or is known to be owned as it is.
    pub(crate) fn doubt(&mut self, id: ShardId, doubted: bool) {
        self.edit(id, |shard| {
            shard.poll |= shard.doubted && !doubted;
            shard.doubted = doubted;
        });
    }

    /// A wake: something is due at `due`.
    pub(crate) fn wake(&mut self, id: ShardId, due: UnixMillis) {
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

    /// A poll found this to be the next due time, while no wake was lost.
    pub(crate) fn learn(&mut self, id: ShardId, next_due: Option<UnixMillis>) {
        // What a poll read may be older than a wake that was woken since: the earlier one costs an empty call at most.
        self.edit(id, |shard| shard.next_due = earlier(shard.next_due, next_due));
    }

    /// Polls at a shard, whatever is due.
    pub(crate) fn poll(&mut self, id: ShardId) {
        self.edit(id, |shard| shard.poll = true);
    }

    /// Polls at every shard, whatever is due.
    pub(crate) fn poll_all(&mut self) {
        let all: Vec<ShardId> = self.shards.keys().copied().collect();
        all.into_iter().for_each(|id| self.poll(id));
    }

    /// The pipelines to send now, given which due times a call sent now to a node finds.
    pub(crate) fn rounds(&mut self, now: Instant, finds: impl Fn(NodeId, UnixMillis) -> bool) -> Vec<Round> {
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

    /// When to ask for rounds to each node again, if nothing is woken or answered before.
    pub(crate) fn next(&self, now: Instant) -> impl Iterator<Item = (NodeId, Next)> {
        self.ways.iter().map(move |(&node, way)| (node, self.next_to(way, now)))
    }

    fn next_to(&self, way: &Way, now: Instant) -> Next {
        let not_before = self.light_from(way);
        if way.light_out >= LIGHT_PIPELINES {
            return Next { due: None, not_before, anyway: None };
        }
        // Polls alone wait for the answer that is out: it asks for rounds again.
        let polls = way.light_out == 0 && way.queues.has_polls();
        let poll = polls.then(|| not_before.map_or(now, |from| from.max(now)));
        let anyway = [poll, way.queues.first_rest()].into_iter().flatten().min();
        Next { due: way.queues.first_due(), not_before, anyway }
    }

    /// An answer for a shard came from a node. Whether the shard is still owned, and still there: otherwise the answer says
    /// nothing of it.
    pub(crate) fn answered(&mut self, (node, id): (NodeId, ShardId), answer: Found, now: Instant) -> bool {
        if !self.is_at(id, node) {
            return false;
        }
        if answer.early
            && let Some(way) = self.ways.get_mut(&node)
        {
            // What is left of its time is shorter than any merging is worth.
            way.light_sent = None;
        }
        self.edit(id, |shard| {
            shard.out = None;
            shard.failures = 0;
            shard.more = answer.more;
            shard.next_due = earlier(answer.next_due, shard.woken.take());
            // A due time that has passed and is still there would be asked for again and again.
            let stuck = !answer.more && answer.next_due.is_some_and(|due| due <= answer.now);
            shard.resting = stuck.then(|| now + STUCK_RETRY);
        });
        true
    }

    /// A call to a node for a shard failed: it rests. Whether it is still owned, and still there.
    pub(crate) fn failed(&mut self, (node, id): (NodeId, ShardId), now: Instant) -> bool {
        if !self.is_at(id, node) {
            return false;
        }
        self.edit(id, |shard| {
            shard.out = None;
            shard.woken = None;
            shard.more = false;
            shard.poll = true;
            let rest = FIRST_RETRY * 2_u32.saturating_pow(shard.failures.min(16));
            shard.resting = Some(now + rest.min(LONGEST_RETRY));
            shard.failures += 1;
        });
        true
    }

    /// A pipeline is through; each of its shards was answered, failed, or let go meanwhile.
    pub(crate) fn returned(&mut self, node: NodeId, pipeline: Pipeline) {
        let way = self.ways.entry(node).or_default();
        match pipeline {
            Pipeline::Light => way.light_out = way.light_out.saturating_sub(1),
            Pipeline::Heavy => way.heavy_out = way.heavy_out.saturating_sub(1),
        }
    }

    /// Whether the last call for a shard was sent for a due time, and not only to poll.
    pub(crate) fn was_due(&self, shard: ShardId) -> bool {
        self.shards.get(&shard).is_some_and(|shard| shard.sent_for_due)
    }

    /// The epoch of a shard that is owned.
    pub(crate) fn epoch(&self, shard: ShardId) -> Option<u64> {
        self.shards.get(&shard).map(|shard| shard.epoch)
    }

    /// Whether a shard is owned, and nothing is known against it.
    pub(crate) fn is_certain(&self, shard: ShardId) -> bool {
        self.shards.get(&shard).is_some_and(|shard| !shard.doubted)
    }

    /// Every shard that is owned.
    pub(crate) fn owned(&self) -> impl Iterator<Item = ShardId> {
        self.shards.keys().copied()
    }

    /// Every shard of a node that is owned.
    pub(crate) fn owned_at(&self, node: NodeId) -> impl Iterator<Item = ShardId> {
        self.shards.iter().filter(move |(_, shard)| shard.node == node).map(|(&id, _)| id)
    }

    /// How many are owned.
    pub(crate) fn count(&self) -> usize {
        self.shards.len()
    }

    /// At most so many of those that are owned, behind one by number; after the greatest comes the least.
    pub(crate) fn after(&self, last: Option<ShardId>, most: usize) -> Vec<ShardId> {
        let Some(last) = last else { return self.owned().take(most).collect() };
        let round = self.shards.range((Excluded(last), Unbounded)).chain(self.shards.range(..=last));
        round.map(|(&shard, _)| shard).take(most).collect()
    }

    /// The earliest due time of each node, also of shards that are held. A doubted one has a newer owner, who answers for it.
    pub(crate) fn earliest(&self) -> BTreeMap<NodeId, UnixMillis> {
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

    /// Whether a shard is owned, and at this node.
    fn is_at(&self, shard: ShardId, node: NodeId) -> bool {
        self.shards.get(&shard).is_some_and(|shard| shard.node == node)
    }

    fn light_from(&self, way: &Way) -> Option<Instant> {
        way.light_sent.map(|sent| sent + self.resolution)
    }

    /// The shards of a light pipeline, and whether something is due in them.
    fn light(&self, way: &Way, finds: impl Fn(UnixMillis) -> bool) -> Vec<(ShardId, bool)> {
        let due = way.queues.due().take_while(|(due, _)| finds(*due)).take(LIGHT_SHARDS);
        let mut chosen: Vec<(ShardId, bool)> = due.map(|(_, id)| (id, true)).collect();
        let polls = match (chosen.is_empty(), way.light_out) {
            (true, 0) => POLLS_ALONE,
            (true, _) => 0,
            (false, _) => POLLS_BESIDE.min(LIGHT_SHARDS - chosen.len()),
        };
        // One that is due is polled at as well.
        let only_polls = |id: &ShardId| self.shards[id].next_due.is_none_or(|due| !finds(due));
        chosen.extend(way.queues.polls().filter(only_polls).take(polls).map(|id| (id, false)));
        chosen
    }

    /// Changes a shard, and where it waits.
    fn edit(&mut self, id: ShardId, change: impl FnOnce(&mut Shard)) {
        let Some(shard) = self.shards.get_mut(&id) else { return };
        let before = Place::of(shard);
        change(shard);
        self.ways.entry(shard.node).or_default().queues.replace(id, &before, &Place::of(shard));
    }

    /// A shard that waited there at its node waits here now.
    fn requeue(&mut self, shard: &Shard, id: ShardId, before: &Place, now: &Place) {
        self.ways.entry(shard.node).or_default().queues.replace(id, before, now);
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

fn earlier(one: Option<UnixMillis>, other: Option<UnixMillis>) -> Option<UnixMillis> {
    [one, other].into_iter().flatten().min()
}

#[cfg(test)]
mod tests;
