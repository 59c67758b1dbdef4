//! What the loop alone knows of a lane: which shards may have something for it, and how much room it has.

use crate::{circuit::Pass, hot_topics::HotTopics, lane::Lane, pace::Pace, routes::Route};
use delayq_core::{ShardId, Topic};
use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
    time::Instant,
};

/// The most messages that one shard is asked for at once. Beyond it a call costs Redis no less a message, and others
/// wait longer for it.
const MOST_A_SHARD: usize = 128;
/// A room that is small is spread over so many shards at least: most of them may have nothing. Over more it is not spread:
/// a call costs Redis as much as two or three messages.
const LEAST_SHARDS: usize = 4;

/// What one lane asks of some shards in one round trip.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pipeline {
    pub(crate) parts: Vec<Part>,
    /// The most bytes of payloads that each of them may bring.
    pub(crate) most_bytes: u32,
}

/// What one lane asks of one shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) shard: ShardId,
    /// How many messages.
    pub(crate) most: u16,
    /// Of which topics, by their numbers in the lane.
    pub(crate) topics: Vec<usize>,
}

/// The routes of a lane's topics.
pub(crate) type TopicRoutes = Arc<HashMap<Topic, Arc<Route>>>;

/// What only the loop knows of a lane.
pub(crate) struct LaneState {
    pub(crate) lane: Arc<Lane>,
    /// Its topics, by number.
    pub(crate) topics: Vec<Topic>,
    pub(crate) routes: TopicRoutes,
    /// Shards that may have something.
    hot: BTreeMap<ShardId, HotTopics>,
    /// Shards that are being asked: they are not asked again before they have answered.
    pub(crate) asked: BTreeSet<ShardId>,
    /// Messages under way, and those that have been asked for.
    pub(crate) in_flight: usize,
    /// Bytes of their payloads, of what has been asked for the most that may come.
    pub(crate) bytes: usize,
    /// How fast its room is filled.
    pub(crate) pace: Pace,
    /// Which shard was asked first the last time.
    turn: usize,
    /// The topic that comes first the next time.
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

    /// Takes a topic in, and gives its number.
    pub(crate) fn add(&mut self, topic: Topic, route: Route) -> usize {
        self.topics.push(topic.clone());
        Arc::make_mut(&mut self.routes).insert(topic, Arc::new(route));
        self.topics.len() - 1
    }

    /// A shard is not for it any more.
    pub(crate) fn cool(&mut self, shard: ShardId) {
        self.hot.remove(&shard);
    }

    /// A shard may have something of these topics.
    pub(crate) fn heat(&mut self, shard: ShardId, topics: impl IntoIterator<Item = usize>, from: Instant) {
        let mut topics = topics.into_iter().peekable();
        if topics.peek().is_some() {
            self.hot.entry(shard).or_default().heat(topics, from);
        }
    }

    /// A shard may have something of any topic.
    pub(crate) fn heat_all(&mut self, shard: ShardId, from: Instant) {
        self.heat(shard, 0..self.topics.len(), from);
    }

    /// When it is to be looked at next without a reason from outside.
    pub(crate) fn next(&self, now: Instant) -> Option<Instant> {
        let free = self.hot.iter().filter(|(shard, _)| !self.asked.contains(shard));
        let hot = free.filter_map(|(_, topics)| topics.first).min()?;
        match self.lane.pass(now) {
            // A message that returns, or the answer of a probe, is the reason then.
            Pass::None(None) => None,
            _ if self.room() == 0 => None,
            Pass::None(Some(until)) => Some(until.max(hot)),
            Pass::All | Pass::Probe => Some(hot.max(self.pace.from())),
        }
    }

    /// How many more messages may be on their way. Where they would be too many bytes, none.
    fn room(&self) -> usize {
        if self.bytes < self.lane.to.in_flight_bytes {
            self.pace.room().saturating_sub(self.in_flight)
        } else {
            0
        }
    }

    /// What to ask for now, so many bytes of a shard and of all of them at most. It takes the room for all of them.
    pub(crate) fn shares(&mut self, now: Instant, most_bytes: u32, free_bytes: usize) -> Vec<Pipeline> {
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
        let most_bytes = most_bytes_each(free_bytes, asked, most_bytes);
        self.bytes += asked * most_bytes as usize;
        let first = self.topic_turn;
        let mut pipeline = |shards: Vec<(ShardId, u16)>| {
            let parts = shards.into_iter().map(|(shard, most)| self.part(shard, most, first, now)).collect();
            Pipeline { parts, most_bytes }
        };
        let pipelines = parts.into_iter().map(&mut pipeline).collect();
        if pass == Pass::Probe {
            self.lane.probing();
        }
        pipelines
    }

    /// Asks a shard for so many messages of the topics that may have some, from this one on.
    fn part(&mut self, shard: ShardId, most: u16, first: usize, now: Instant) -> Part {
        let hot = self.hot.get_mut(&shard).expect("only hot shards are asked");
        let topics = hot.take(first, now);
        if hot.first.is_none() {
            self.hot.remove(&shard);
        }
        self.topic_turn = topics.first().map_or(0, |topic| topic + 1);
        self.asked.insert(shard);
        self.in_flight += usize::from(most);
        self.pace.asked(usize::from(most), now);
        Part { shard, most, topics }
    }

    /// The probe found no message.
    pub(crate) fn unprobed(&self, now: Instant) {
        self.lane.unprobed(now);
    }
}

/// Spreads a room over shards, in pipelines that bring one batch each; where batches are small, several. Shards that
/// are left over wait for more room.
fn split(shards: &[ShardId], room: usize, batch: usize) -> Vec<Vec<(ShardId, u16)>> {
    let share = (room / shards.len()).max(room.div_ceil(LEAST_SHARDS)).min(MOST_A_SHARD);
    let most = u16::try_from(share).expect("a share is at most 128");
    let asked = &shards[..shards.len().min(room / share)];
    let pipeline = |some: &[ShardId]| some.iter().map(|shard| (*shard, most)).collect();
    asked.chunks(batch.max(MOST_A_SHARD) / share).map(pipeline).collect()
}

/// How many bytes each of the shards may bring that are asked: an equal part of what is free, and never none, which would
/// mean any number.
fn most_bytes_each(free: usize, asked: usize, most: u32) -> u32 {
    u32::try_from(free / asked.max(1)).unwrap_or(u32::MAX).clamp(1, most.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bytes_that_are_free_are_spread_over_the_shards_that_are_asked() {
        for (free, asked, most, expected) in [
            (64 << 20, 16, 1 << 20, 1 << 20),
            (1 << 20, 16, 1 << 20, 1 << 16),
            (3, 16, 1 << 20, 1),
            (9, 0, 5, 5),
        ] {
            assert_eq!(most_bytes_each(free, asked, most), expected, "{free} bytes, {asked} shards");
        }
    }

    #[test]
    fn a_room_is_spread_over_shards_in_pipelines_of_one_batch() {
        for (shards, room, batch, expected) in [
            // Room for all.
            (1, 2048, 256, vec![vec![128]]),
            (4, 2048, 256, vec![vec![128, 128], vec![128, 128]]),
            (3, 2048, 256, vec![vec![128, 128], vec![128]]),
            // What one batch leaves free when it ends: few shards, many messages each.
            (16, 256, 256, vec![vec![64; 4]]),
            (2, 256, 256, vec![vec![128, 128]]),
            // Little room, and several shards still.
            (16, 8, 256, vec![vec![2; 4]]),
            (16, 1, 256, vec![vec![1]]),
            // Small batches: several of them in one pipeline.
            (4, 2048, 1, vec![vec![128]; 4]),
            (2, 100, 10, vec![vec![50, 50]]),
        ] {
            let all: Vec<ShardId> = (0..shards).map(ShardId::new).collect();
            let pipelines = split(&all, room, batch);
            let amounts: Vec<Vec<u16>> =
                pipelines.iter().map(|some| some.iter().map(|(_, most)| *most).collect()).collect();
            assert_eq!(amounts, expected, "{shards} shards, room for {room}, batches of {batch}");
            let sum: usize = amounts.iter().flatten().map(|most| usize::from(*most)).sum();
            assert!(sum <= room);
        }
    }
}
