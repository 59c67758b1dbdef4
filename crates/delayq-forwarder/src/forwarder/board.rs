//! The board: every lane, and which topic goes into which.

use super::Forwarder;
use crate::{
    circuit::CircuitSettings,
    lane::{Lane, NamedSink},
    lane_state::LaneState,
    routes::{Route, Routes},
    stats::Stats,
};
use delayq_core::{ShardId, Topic};
use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
    time::Instant,
};

/// What the loop knows of lanes and topics.
pub(super) struct Board {
    pub(super) lanes: Vec<LaneState>,
    /// The lane that is looked at first.
    pub(super) turn: usize,
    /// The shards that every lane takes from, in order.
    shards: Vec<ShardId>,
    /// By sink and outline of the destination.
    numbers: HashMap<(String, String), usize>,
    /// Every topic that was met; `None`: no route is for it.
    topics: BTreeMap<Topic, Option<Place>>,
    sinks: BTreeMap<String, Arc<NamedSink>>,
    routes: Routes,
    /// Destinations that were looked at, by sink.
    checked: BTreeSet<(String, Option<String>)>,
    circuit: CircuitSettings,
    stats: Stats,
}

/// Where a topic is.
#[derive(Clone, Copy, Debug)]
struct Place {
    lane: usize,
    /// Its number in the lane.
    topic: usize,
}

// === impl Board ===

impl Board {
    /// The lanes of the topics that the routes name outright; the others are made when they are met.
    pub(super) fn new(forwarder: &Forwarder) -> Self {
        let mut board = Self {
            lanes: Vec::new(),
            turn: 0,
            shards: forwarder.share.shards(),
            numbers: HashMap::new(),
            topics: BTreeMap::new(),
            sinks: forwarder.sinks.clone(),
            routes: forwarder.routes.clone(),
            checked: forwarder.checked.clone(),
            circuit: forwarder.settings.forwarder.circuit(),
            stats: forwarder.stats.clone(),
        };
        for topic in board.routes.exact_topics().collect::<Vec<_>>() {
            board.place_of(&topic);
        }
        board
    }

    /// The shards that every lane takes from.
    pub(super) fn shards(&self) -> &[ShardId] {
        &self.shards
    }

    /// Every lane takes from these shards from now on.
    pub(super) fn take_from(&mut self, shards: Vec<ShardId>) {
        let before = std::mem::replace(&mut self.shards, shards);
        for shard in before.into_iter().filter(|shard| !self.takes_from(*shard)).collect::<Vec<_>>() {
            self.lanes.iter_mut().for_each(|lane| lane.cool(shard));
        }
    }

    /// Whether the lanes take from this shard.
    pub(super) fn takes_from(&self, shard: ShardId) -> bool {
        self.shards.binary_search(&shard).is_ok()
    }

    /// The topics that no route is for.
    fn unrouted(&self) -> impl Iterator<Item = &Topic> {
        self.topics.iter().filter_map(|(topic, place)| place.is_none().then_some(topic))
    }

    /// The shard may have something of every topic that was met.
    pub(super) fn heat(&mut self, shard: ShardId, now: Instant) {
        if self.takes_from(shard) {
            self.lanes.iter_mut().for_each(|lane| lane.heat_all(shard, now));
        }
    }

    /// The shard may have something of this topic. Whether a route is for it.
    pub(super) fn heat_topic(&mut self, shard: ShardId, topic: &Topic, now: Instant) -> bool {
        let place = self.place_of(topic);
        if let Some(Place { lane, topic }) = place.filter(|_| self.takes_from(shard)) {
            self.lanes[lane].heat(shard, [topic], now);
        }
        place.is_some()
    }

    /// Makes the topic known.
    pub(super) fn meet(&mut self, topic: &Topic) {
        self.place_of(topic);
    }

    /// The place of a topic in its lane, which is made when the topic is met for the first time; `None`: no route is for it.
    fn place_of(&mut self, topic: &Topic) -> Option<Place> {
        if let Some(known) = self.topics.get(topic) {
            return *known;
        }
        let route = self.routes.of(topic);
        if route.is_none() {
            tracing::warn!(%topic, "no route is for this topic: its messages wait");
        }
        let place = route.map(|route| self.place_for(topic, route));
        self.topics.insert(topic.clone(), place);
        self.stats.unrouted_topics.set(self.unrouted().count() as i64);
        place
    }

    fn place_for(&mut self, topic: &Topic, route: Route) -> Place {
        let key = (route.sink.clone(), route.to.outline());
        let number = match self.numbers.get(&key) {
            Some(number) => *number,
            None => {
                let sink = self.sinks[&route.sink].clone();
                let lane = Lane::new(sink, &route, self.circuit, self.stats.clone());
                if self.checked.contains(&(route.sink.clone(), lane.fixed.clone())) {
                    lane.mark_checked();
                } else {
                    lane.open(Instant::now());
                }
                self.lanes.push(LaneState::new(lane));
                self.numbers.insert(key, self.lanes.len() - 1);
                self.lanes.len() - 1
            }
        };
        Place { lane: number, topic: self.lanes[number].add(topic.clone(), route) }
    }
}
