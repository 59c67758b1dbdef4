//! The loop's view of a lane: the shards that may have messages, and the remaining room.

use crate::circuit::Pass;
use crate::hot_topics::HotTopics;
use crate::lane::Lane;
use crate::pace::Pace;
use crate::routes::Route;
use delayq::Topic;
use delayq::protocol::ShardId;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Instant;

/// Maximum messages per request to a shard. Larger requests save Redis nothing and make other callers wait longer.
const MAX_A_SHARD: usize = 128;
/// Minimum number of shards that share a small room, because most shards may be empty. More shards would cost more: a
/// call costs Redis as much as two or three messages.
const MIN_SHARDS: usize = 4;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pipeline {
    pub(crate) parts: Vec<ShardPart>,
    pub(crate) max_bytes: u32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ShardPart {
    pub(crate) shard: ShardId,
    pub(crate) max: u16,
    pub(crate) topics: Vec<usize>,
}

pub(crate) type TopicRoutes = Arc<HashMap<Topic, Arc<Route>>>;

pub(crate) struct LaneState {
    pub(crate) lane: Arc<Lane>,
    pub(crate) topics: Vec<Topic>,
    pub(crate) routes: TopicRoutes,
    hot: BTreeMap<ShardId, HotTopics>,
    /// Asked again only after the answer.
    pub(crate) asked: BTreeSet<ShardId>,
    pub(crate) in_flight: usize,
    /// Requested messages count with the maximum.
    pub(crate) bytes: usize,
    pub(crate) pace: Pace,
    turn: usize,
    topic_turn: usize,
}

// === impl LaneState ===

impl LaneState {
    pub(crate) fn new(lane: Lane) -> Self {
        let pace = Pace::new(lane.to.in_flight, lane.to.timeout, Instant::now());
        Self {
            lane: Arc::new(lane),
            pace,
            topics: Vec::new(),
            routes: TopicRoutes::default(),
            hot: BTreeMap::new(),
            asked: BTreeSet::new(),
            in_flight: 0,
            bytes: 0,
            turn: 0,
            topic_turn: 0,
        }
    }

    pub(crate) fn add(&mut self, topic: Topic, route: Route) -> usize {
        self.topics.push(topic.clone());
        Arc::make_mut(&mut self.routes).insert(topic, Arc::new(route));
        self.topics.len() - 1
    }

    pub(crate) fn cool(&mut self, shard: ShardId) {
        self.hot.remove(&shard);
    }

    pub(crate) fn heat(&mut self, shard: ShardId, topics: impl IntoIterator<Item = usize>, from: Instant) {
        let mut topics = topics.into_iter().peekable();
        if topics.peek().is_some() {
            self.hot.entry(shard).or_default().heat(topics, from);
        }
    }

    pub(crate) fn heat_all(&mut self, shard: ShardId, from: Instant) {
        self.heat(shard, 0..self.topics.len(), from);
    }

    /// Without a notification.
    pub(crate) fn next(&self, now: Instant) -> Option<Instant> {
        let free = self.hot.iter().filter(|(shard, _)| !self.asked.contains(shard));
        let hot = free.filter_map(|(_, topics)| topics.first).min()?;
        match self.lane.pass(now) {
            // A returning message, or the probe's answer, wakes the loop.
            Pass::None(None) => None,
            _ if self.room() == 0 => None,
            Pass::None(Some(until)) => Some(until.max(hot)),
            Pass::All | Pass::Probe => Some(hot.max(self.pace.from())),
        }
    }

    /// 0 while the limit on bytes is reached.
    fn room(&self) -> usize {
        if self.bytes < self.lane.to.in_flight_bytes {
            self.pace.room().saturating_sub(self.in_flight)
        } else {
            0
        }
    }

    /// Within the limits on bytes per shard and in total. Occupies the room.
    pub(crate) fn shares(&mut self, now: Instant, max_bytes: u32, free_bytes: usize) -> Vec<Pipeline> {
        let free = self.room().min(self.pace.allowed(now));
        let pass = self.lane.pass(now);
        let room = match pass {
            Pass::All => free,
            Pass::Probe => free.min(1),
            Pass::None(_) => 0,
        };
        let due = self.hot.iter().filter(|(shard, topics)| topics.is_due(now) && !self.asked.contains(shard));
        let mut shards: Vec<ShardId> = due.map(|(shard, _)| *shard).collect();
        if room == 0 || shards.is_empty() {
            return Vec::new();
        }
        self.turn = (self.turn + 1) % shards.len();
        shards.rotate_left(self.turn);
        let parts = split(&shards, room, self.lane.to.batch);
        let free_bytes = free_bytes.min(self.lane.to.in_flight_bytes.saturating_sub(self.bytes));
        let asked: usize = parts.iter().map(Vec::len).sum();
        let max_bytes = max_bytes_each(free_bytes, asked, max_bytes);
        self.bytes += asked * max_bytes as usize;
        let first = self.topic_turn;
        let mut pipeline = |shards: Vec<(ShardId, u16)>| {
            let parts = shards.into_iter().map(|(shard, max)| self.part(shard, max, first, now)).collect();
            Pipeline { parts, max_bytes }
        };
        let pipelines = parts.into_iter().map(&mut pipeline).collect();
        if pass == Pass::Probe {
            self.lane.probing();
        }
        pipelines
    }

    /// For due topics, in order from `first`.
    fn part(&mut self, shard: ShardId, max: u16, first: usize, now: Instant) -> ShardPart {
        let hot = self.hot.get_mut(&shard).expect("only hot shards are asked");
        let topics = hot.take(first, now);
        if hot.first.is_none() {
            self.hot.remove(&shard);
        }
        self.topic_turn = topics.first().map_or(0, |topic| topic + 1);
        self.asked.insert(shard);
        self.in_flight += usize::from(max);
        self.pace.asked(usize::from(max), now);
        ShardPart { shard, max, topics }
    }

    pub(crate) fn unprobed(&self, now: Instant) {
        self.lane.unprobed(now);
    }
}

/// Uses pipelines of one batch each, or of several small batches. Remaining shards wait for more room.
fn split(shards: &[ShardId], room: usize, batch: usize) -> Vec<Vec<(ShardId, u16)>> {
    let share = (room / shards.len()).max(room.div_ceil(MIN_SHARDS)).min(MAX_A_SHARD);
    let max = u16::try_from(share).expect("a share is at most 128");
    let asked = &shards[..shards.len().min(room / share)];
    let pipeline = |some: &[ShardId]| some.iter().map(|shard| (*shard, max)).collect();
    asked.chunks(batch.max(MAX_A_SHARD) / share).map(pipeline).collect()
}

/// Maximum bytes of each requested shard: an equal part of the free bytes, but at least 1, because 0 means no limit.
fn max_bytes_each(free: usize, asked: usize, max: u32) -> u32 {
    u32::try_from(free / asked.max(1)).unwrap_or(u32::MAX).clamp(1, max.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bytes_that_are_free_are_spread_over_the_shards_that_are_asked() {
        for (free, asked, max, expected) in [
            (64 << 20, 16, 1 << 20, 1 << 20),
            (1 << 20, 16, 1 << 20, 1 << 16),
            (3, 16, 1 << 20, 1),
            (9, 0, 5, 5),
        ] {
            assert_eq!(max_bytes_each(free, asked, max), expected, "{free} bytes, {asked} shards");
        }
    }

    #[test]
    fn a_room_is_spread_over_shards_in_pipelines_of_one_batch() {
        for (shards, room, batch, expected) in [
            (1, 2048, 256, vec![vec![128]]),
            (4, 2048, 256, vec![vec![128, 128], vec![128, 128]]),
            (3, 2048, 256, vec![vec![128, 128], vec![128]]),
            // One batch ended: few shards, many messages each.
            (16, 256, 256, vec![vec![64; 4]]),
            (2, 256, 256, vec![vec![128, 128]]),
            // Little room, still several shards.
            (16, 8, 256, vec![vec![2; 4]]),
            (16, 1, 256, vec![vec![1]]),
            // Small batches share a pipeline.
            (4, 2048, 1, vec![vec![128]; 4]),
            (2, 100, 10, vec![vec![50, 50]]),
        ] {
            let all: Vec<ShardId> = (0..shards).map(ShardId::new).collect();
            let pipelines = split(&all, room, batch);
            let amounts: Vec<Vec<u16>> =
                pipelines.iter().map(|some| some.iter().map(|(_, max)| *max).collect()).collect();
            assert_eq!(amounts, expected, "{shards} shards, room for {room}, batches of {batch}");
            let sum: usize = amounts.iter().flatten().map(|max| usize::from(*max)).sum();
            assert!(sum <= room);
        }
    }
}
