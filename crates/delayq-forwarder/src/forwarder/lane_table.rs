//! The lanes: every lane, and the lane of each topic.

use super::built::Built;
use crate::circuit::CircuitSettings;
use crate::destinations::SinkTarget;
use crate::lane::{Lane, NamedSink};
use crate::lane_state::LaneState;
use crate::routes::{Route, Routes};
use crate::stats::Stats;
use delayq::Topic;
use delayq::protocol::ShardId;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Instant;

pub(super) struct LaneTable {
    pub(super) lanes: Vec<LaneState>,
    pub(super) turn: usize,
    shards: Vec<ShardId>,
    numbers: HashMap<(String, String), usize>,
    topics: BTreeMap<Topic, Option<LaneTopic>>,
    sinks: BTreeMap<String, Arc<NamedSink>>,
    routes: Routes,
    checked: BTreeSet<SinkTarget>,
    circuit: CircuitSettings,
    stats: Stats,
}

#[derive(Clone, Copy, Debug)]
struct LaneTopic {
    lane: usize,
    topic: usize,
}

// === impl LaneTable ===

impl LaneTable {
    /// Only for topics that routes name outright. Other lanes appear with the first message of a topic.
    pub(super) fn new(built: &Built) -> Self {
        let mut table = Self {
            lanes: Vec::new(),
            turn: 0,
            shards: built.growth.shards().shards().collect(),
            numbers: HashMap::new(),
            topics: BTreeMap::new(),
            sinks: built.sinks.clone(),
            routes: built.routes.clone(),
            checked: built.checked.clone(),
            circuit: built.settings.forwarder.circuit(),
            stats: built.stats.clone(),
        };
        for topic in table.routes.exact_topics().collect::<Vec<_>>() {
            table.find(&topic);
        }
        table
    }

    pub(super) fn shards(&self) -> &[ShardId] {
        &self.shards
    }

    pub(super) fn serve(&mut self, shards: Vec<ShardId>) {
        self.shards = shards;
    }

    pub(super) fn serves(&self, shard: ShardId) -> bool {
        self.shards.binary_search(&shard).is_ok()
    }

    /// Of every known topic.
    pub(super) fn heat(&mut self, shard: ShardId, now: Instant) {
        if self.serves(shard) {
            self.lanes.iter_mut().for_each(|lane| lane.heat_all(shard, now));
        }
    }

    /// Returns whether the topic has a route.
    pub(super) fn heat_topic(&mut self, shard: ShardId, topic: &Topic, now: Instant) -> bool {
        let found = self.find(topic);
        if let Some(LaneTopic { lane, topic }) = found.filter(|_| self.serves(shard)) {
            self.lanes[lane].heat(shard, [topic], now);
        }
        found.is_some()
    }

    pub(super) fn add(&mut self, topic: &Topic) {
        self.find(topic);
    }

    pub(super) fn routed(&self) -> Vec<Topic> {
        self.topics.iter().filter(|(_, found)| found.is_some()).map(|(topic, _)| topic.clone()).collect()
    }

    /// Adds a new topic; `None`: no route matches.
    fn find(&mut self, topic: &Topic) -> Option<LaneTopic> {
        if let Some(known) = self.topics.get(topic) {
            return *known;
        }
        let route = self.routes.of(topic);
        if route.is_none() {
            tracing::warn!(%topic, "this topic has no route: its messages wait");
        }
        let found = route.map(|route| self.insert(topic, route));
        self.topics.insert(topic.clone(), found);
        let unrouted = self.topics.values().filter(|found| found.is_none()).count();
        self.stats.unrouted_topics.set(unrouted as i64);
        found
    }

    fn insert(&mut self, topic: &Topic, route: Route) -> LaneTopic {
        let key = (route.config.sink.clone(), route.to.outline());
        let number = match self.numbers.get(&key) {
            Some(number) => *number,
            None => {
                let sink = self.sinks[&route.config.sink].clone();
                let lane = Lane::new(sink, &route, self.circuit, self.stats.clone());
                let target = SinkTarget { sink: route.config.sink.clone(), destination: lane.fixed.clone() };
                if self.checked.contains(&target) {
                    lane.mark_checked();
                } else {
                    lane.open(Instant::now());
                }
                self.lanes.push(LaneState::new(lane));
                self.numbers.insert(key, self.lanes.len() - 1);
                self.lanes.len() - 1
            }
        };
        LaneTopic { lane: number, topic: self.lanes[number].add(topic.clone(), route) }
    }
}
