//! The forwarder: one loop that reserves for all lanes at once, and a task for each batch under way.
//!
//! ```text
//! ready channel, clock, ended batches ─► what may be there ─► reserve (one pipeline) ─► batches ─► encode, deliver, settle
//!                                             ▲                                                          │
//!                                             └──────────────── room is free again ◄─────────────────────┘
//! ```
//! What is not reserved stays in Redis. The loop keeps, for each lane, which shards may have something for it
//! (*hot*): told by the ready channel, or left over by a reserve that took as much as it was allowed.

use crate::{
    circuit::Pass,
    codes::{REDIS_UNUSABLE, SINK_UNUSABLE},
    config::Settings,
    delivery::{Batch, Means, Report},
    destinations::{self, Seen},
    lane::{Lane, LaneState, NamedSink},
    routes::{Route, Routes},
    sharing::Share,
    stats::Stats,
};
use delayq_cluster::ClusterConfig;
use delayq_core::{Admin, Advice, Client, Error, Heard, ReserveReport, ReserveRequest, ShardId, Topic};
use delayq_service::{Condition, Fault, Metrics, Readiness, Shutdown, config::RedisConfig};
use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::task::JoinSet;

/// The most messages that one call of the script gives.
const MOST_A_SHARD: usize = delayq_core::MAX_IDS_A_CALL;
/// How often the topics of all shards are looked up without a reason.
const DISCOVER_EVERY: Duration = Duration::from_secs(10);
/// How long to rest after Redis did not answer.
const REST_AFTER_ERROR: Duration = Duration::from_millis(250);
/// How long the drain waits for sinks before it gives their messages back.
const GRACE: Duration = Duration::from_secs(5);
/// How long the closing of one sink may take.
const CLOSE_WITHIN: Duration = Duration::from_secs(2);

/// What a forwarder needs from the process around it.
#[derive(Clone, Debug)]
pub struct Deps {
    /// The deployment.
    pub client: Client,
    /// Its Redis, for sinks that deliver into the same one.
    pub redis: RedisConfig,
    /// Where to register what is counted.
    pub metrics: Metrics,
    /// Where to say whether it can work.
    pub readiness: Readiness,
}

/// A forwarder that has been built and not yet run.
pub struct Forwarder {
    client: Client,
    settings: Settings,
    sinks: BTreeMap<String, Arc<NamedSink>>,
    routes: Routes,
    /// Destinations that were looked at, by sink.
    checked: BTreeSet<(String, Option<String>)>,
    stats: Stats,
    condition: Condition,
    share: Share,
}

/// Makes a forwarder: sinks, routes, and a look at every destination that is known. Starts nothing.
///
/// # Errors
/// [`DESTINATION_REFUSED`](crate::codes::DESTINATION_REFUSED), [`SINK_UNUSABLE`], and
/// [`DESTINATION_UNREACHABLE`](crate::codes::DESTINATION_UNREACHABLE) unless the sink is not required.
pub async fn build(settings: Settings, deps: Deps) -> Result<Forwarder, Fault> {
    let sinks = destinations::make(&settings, &deps.redis)?;
    let routes = Routes::new(&settings).map_err(|message| Fault::new(&SINK_UNUSABLE, message))?;
    let Seen { fit, warnings, waiting } = destinations::look(&settings, &sinks, &routes).await?;
    for ((sink, destination), warning) in warnings {
        tracing::warn!(sink, destination, "{warning}");
    }
    for ((sink, destination), why) in waiting {
        tracing::warn!(sink, destination, why, "not there yet: its messages wait");
    }
    let stats = Stats::new(&deps.metrics);
    let condition = deps.readiness.condition("forwarder");
    let share = Share::all(&deps.client);
    Ok(Forwarder { client: deps.client, settings, sinks, routes, checked: fit, stats, condition, share })
}

// === impl Forwarder ===

impl Forwarder {
    /// The sinks' names and kinds, for an announcement.
    pub fn sinks(&self) -> impl Iterator<Item = (&str, &'static str)> {
        self.sinks.iter().map(|(name, sink)| (name.as_str(), sink.sink.kind()))
    }

    /// Takes only from the shards that the plan of this group gives it, instead of competing for all.
    ///
    /// # Errors
    /// [`PLAN_UNREACHABLE`](crate::codes::PLAN_UNREACHABLE)
    pub async fn share_by_plan(self, group: ClusterConfig) -> Result<Self, Fault> {
        Ok(Self { share: Share::join(group, &self.client).await?, ..self })
    }

    /// Forwards until shutdown is asked for; then finishes what the sinks have begun, gives back the rest, and closes
    /// the sinks.
    ///
    /// # Errors
    /// The deployment does not exist in this Redis.
    pub async fn run(self, shutdown: Shutdown) -> Result<(), Fault> {
        let sinks: Vec<Arc<NamedSink>> = self.sinks.values().cloned().collect();
        let mut run = Loop::new(self);
        let ended = run.until(&shutdown).await;
        run.condition.unready("draining");
        // The others take over while this one finishes what it has.
        let share = std::mem::replace(&mut run.share, Share::all(&run.means.client));
        tokio::join!(run.drain(), share.leave());
        for to in sinks {
            match tokio::time::timeout(CLOSE_WITHIN, to.sink.close()).await {
                Ok(Ok(())) => {}
                Ok(Err(why)) => tracing::warn!(sink = to.name, why, "the sink did not close cleanly"),
                Err(_) => tracing::warn!(sink = to.name, "the sink did not close in time"),
            }
        }
        ended
    }
}

/// The loop's state: all of it belongs to one task.
struct Loop {
    means: Means,
    condition: Condition,
    settings: Settings,
    sinks: BTreeMap<String, Arc<NamedSink>>,
    routes: Routes,
    checked: BTreeSet<(String, Option<String>)>,
    shards: Vec<ShardId>,
    lanes: Vec<LaneState>,
    /// By sink and outline of the destination.
    lane_numbers: HashMap<(String, String), usize>,
    /// Every topic that was met; `None`: no route is for it.
    topics: BTreeMap<Topic, Option<usize>>,
    batches: JoinSet<Report>,
    next_look: Instant,
    next_discovery: Instant,
    /// Redis did not answer: nothing before this.
    rest_until: Option<Instant>,
    /// Errors of single shards that were logged.
    spoken_of: BTreeSet<String>,
    share: Share,
}

/// A request of one lane to one shard.
struct Ask {
    lane: usize,
    shard: ShardId,
    probe: bool,
}

// === impl Loop ===

impl Loop {
    fn new(forwarder: Forwarder) -> Self {
        let Forwarder { client, settings, sinks, routes, checked, stats, condition, share } = forwarder;
        let now = Instant::now();
        let shards = share.shards();
        let means = Means { client, lease: *settings.forwarder.lease, stats, give_up: Shutdown::new() };
        let mut run = Self {
            means,
            condition,
            settings,
            sinks,
            routes,
            checked,
            shards,
            lanes: Vec::new(),
            lane_numbers: HashMap::new(),
            topics: BTreeMap::new(),
            batches: JoinSet::new(),
            next_look: now,
            next_discovery: now,
            rest_until: None,
            spoken_of: BTreeSet::new(),
            share,
        };
        for topic in run.routes.exact_topics().collect::<Vec<_>>() {
            run.lane_of(&topic);
        }
        run
    }

    async fn until(&mut self, shutdown: &Shutdown) -> Result<(), Fault> {
        self.means.stats.shards.set(self.shards.len() as i64);
        // The plan may have nothing for it yet.
        while self.shards.is_empty() {
            self.condition.ready();
            tokio::select! {
                () = shutdown.requested() => return Ok(()),
                shards = self.share.changed() => self.take_from(shards?),
            }
        }
        let mut listener = self.means.client.listen_for_ready(self.shards.clone());
        loop {
            let wake = self.next_wake();
            tokio::select! {
                biased;
                () = shutdown.requested() => return Ok(()),
                Some(report) = self.batches.join_next(), if !self.batches.is_empty() => self.ended(report),
                shards = self.share.changed() => {
                    self.take_from(shards?);
                    // Without a shard, whatever the old one hears is passed over.
                    if !self.shards.is_empty() {
                        listener = self.means.client.listen_for_ready(self.shards.clone());
                    }
                }
                heard = listener.next() => self.hear(heard),
                () = tokio::time::sleep_until(wake.into()) => {}
            }
            while let Some(heard) = listener.try_next() {
                self.hear(heard);
            }
            while let Some(report) = self.batches.try_join_next() {
                self.ended(report);
            }
            self.step().await?;
        }
    }

    /// Takes from these shards from now on.
    fn take_from(&mut self, shards: Vec<ShardId>) {
        let now = Instant::now();
        self.means.stats.shards.set(shards.len() as i64);
        self.shards = shards;
        for lane in &mut self.lanes {
            lane.hot.retain(|shard, _| self.shards.contains(shard));
        }
        self.next_discovery = now;
        self.heat_all(now);
    }

    /// One step: looks that are due, one reserve for all lanes, and a batch for what it brought.
    async fn step(&mut self) -> Result<(), Fault> {
        let now = Instant::now();
        if self.rest_until.is_some_and(|until| now < until) {
            return Ok(());
        }
        self.rest_until = None;
        if now >= self.next_discovery {
            self.next_discovery = now + DISCOVER_EVERY;
            self.discover().await?;
        }
        if now >= self.next_look {
            self.next_look = now + *self.settings.forwarder.look_every;
            self.heat_all(now);
        }
        let (asks, requests) = self.requests(now);
        if requests.is_empty() {
            return Ok(());
        }
        self.means.stats.reserves.inc_by(requests.len() as u64);
        let reports = self.means.client.reserve_many(&requests).await;
        self.take(&asks, &requests, reports)
    }

    /// When to look without being told anything.
    fn next_wake(&self) -> Instant {
        let now = Instant::now();
        let lanes = self.lanes.iter().filter_map(|lane| lane.next(now));
        let first = lanes.chain([self.next_look, self.next_discovery]).min().expect("there are two at least");
        self.rest_until.map_or(first, |until| first.max(until))
    }

    fn hear(&mut self, heard: Heard) {
        let now = Instant::now();
        match heard {
            // Told before it was given away.
            Heard::Ready(shard, _) if !self.shards.contains(&shard) => {}
            Heard::Ready(shard, Some(topic)) => {
                if let Some(lane) = self.lane_of(&topic) {
                    self.lanes[lane].heat(shard, now);
                }
            }
            Heard::Ready(shard, None) => self.lanes.iter_mut().for_each(|lane| lane.heat(shard, now)),
            Heard::Resync => {
                self.next_discovery = now;
                self.heat_all(now);
            }
            Heard::Wake(..) => {}
        }
    }

    fn heat_all(&mut self, now: Instant) {
        for lane in &mut self.lanes {
            self.shards.iter().for_each(|shard| lane.heat(*shard, now));
        }
    }

    fn ended(&mut self, report: Result<Report, tokio::task::JoinError>) {
        match report {
            Ok(report) => self.lanes[report.lane_number].in_flight -= report.count,
            Err(panic) => std::panic::resume_unwind(panic.into_panic()),
        }
    }

    /// The lane of a topic, made when the topic is met for the first time; `None`: no route is for it.
    fn lane_of(&mut self, topic: &Topic) -> Option<usize> {
        if let Some(known) = self.topics.get(topic) {
            return *known;
        }
        let route = self.routes.of(topic);
        if route.is_none() {
            tracing::warn!(%topic, "no route is for this topic: its messages wait");
        }
        let lane = route.map(|route| self.lane_for(topic, route));
        self.topics.insert(topic.clone(), lane);
        self.means
            .stats
            .unrouted_topics
            .set(self.topics.values().filter(|lane| lane.is_none()).count() as i64);
        lane
    }

    fn lane_for(&mut self, topic: &Topic, route: Route) -> usize {
        let key = (route.sink.clone(), route.to.outline());
        let number = match self.lane_numbers.get(&key) {
            Some(number) => *number,
            None => {
                let sink = self.sinks[&route.sink].clone();
                let circuit = self.settings.forwarder.circuit();
                let lane = Lane::new(sink, &route, circuit, self.means.stats.clone());
                if self.checked.contains(&(route.sink.clone(), lane.fixed.clone())) {
                    lane.mark_checked();
                } else {
                    lane.open(Instant::now());
                }
                self.lanes.push(LaneState::new(lane));
                self.lane_numbers.insert(key, self.lanes.len() - 1);
                self.lanes.len() - 1
            }
        };
        self.lanes[number].add(topic.clone(), route);
        number
    }

    /// Asks every shard for its topics, so that none waits whose notification was lost.
    async fn discover(&mut self) -> Result<(), Fault> {
        let now = Instant::now();
        for (i, overview) in self.means.client.overview(&self.shards).await.into_iter().enumerate() {
            match overview {
                Err(error) => self.failed(&error)?,
                Ok(overview) => {
                    self.condition.ready();
                    for topic in overview.topics.into_iter().filter_map(|text| Topic::new(text).ok()) {
                        let is_new = !self.topics.contains_key(&topic);
                        let lane = self.lane_of(&topic);
                        if let Some(lane) = lane.filter(|_| is_new) {
                            self.lanes[lane].heat(self.shards[i], now);
                        }
                    }
                }
            }
        }
        self.count_unrouted().await
    }

    /// Counts what waits because no route is for it.
    async fn count_unrouted(&mut self) -> Result<(), Fault> {
        let admin = Admin::new(self.means.client.clone());
        let mut waiting = 0;
        for topic in self.topics.iter().filter_map(|(topic, lane)| lane.is_none().then_some(topic)) {
            match admin.count(topic).await {
                Ok(numbers) => waiting += numbers.ready,
                Err(error) => return self.failed(&error),
            }
        }
        self.means.stats.unrouted_messages.set(i64::try_from(waiting).unwrap_or(i64::MAX));
        Ok(())
    }

    /// What to ask now: for each lane with room, the shards that may have something for it.
    fn requests(&mut self, now: Instant) -> (Vec<Ask>, Vec<(ShardId, ReserveRequest)>) {
        let most_bytes = u32::try_from(self.settings.forwarder.most_bytes.bytes()).unwrap_or(u32::MAX);
        let (mut asks, mut requests) = (Vec::new(), Vec::new());
        for (number, state) in self.lanes.iter_mut().enumerate() {
            let probe = state.lane.pass(now) == Pass::Probe;
            for (shard, most) in state.shares(now, MOST_A_SHARD) {
                let lease = Some(self.means.lease);
                let topics = state.topics.clone();
                requests.push((shard, ReserveRequest { topics, most, most_bytes, lease }));
                asks.push(Ask { lane: number, shard, probe });
            }
        }
        (asks, requests)
    }

    /// Takes what was reserved, and starts its batches.
    fn take(
        &mut self,
        asks: &[Ask],
        requests: &[(ShardId, ReserveRequest)],
        reports: Vec<Result<ReserveReport, Error>>,
    ) -> Result<(), Fault> {
        let now = Instant::now();
        let mut taken: BTreeMap<usize, Vec<ReserveReport>> = BTreeMap::new();
        for ((ask, (_, request)), report) in asks.iter().zip(requests).zip(reports) {
            match report {
                Err(error) => {
                    // Tried again, like every shard that may have something, but not at once.
                    self.lanes[ask.lane].hot.insert(ask.shard, now + REST_AFTER_ERROR);
                    self.failed(&error)?;
                }
                Ok(report) => {
                    let state = &mut self.lanes[ask.lane];
                    match report.wait {
                        _ if left_over(&report, request) => drop(state.hot.insert(ask.shard, now)),
                        Some(wait) => drop(state.hot.insert(ask.shard, now + wait)),
                        None => drop(state.hot.remove(&ask.shard)),
                    }
                    if !report.messages.is_empty() {
                        taken.entry(ask.lane).or_default().push(report);
                    }
                }
            }
        }
        for (lane, reports) in taken {
            let probe = asks.iter().any(|ask| ask.lane == lane && ask.probe);
            self.start(lane, reports, probe, now);
        }
        Ok(())
    }

    fn start(&mut self, number: usize, reports: Vec<ReserveReport>, probe: bool, now: Instant) {
        let redis_clock = reports.iter().map(|report| report.now).max().expect("there is one at least");
        let state = &mut self.lanes[number];
        if let (true, Some(destination)) = (probe, &state.lane.fixed) {
            state.lane.probing(destination);
        }
        let mut messages = Vec::new();
        for message in reports.into_iter().flat_map(|report| report.messages) {
            let route = state.routes[&message.topic].clone();
            messages.push((message, route));
        }
        state.in_flight += messages.len();
        while !messages.is_empty() {
            let rest = messages.split_off(messages.len().min(state.lane.to.batch));
            let batch = Batch {
                lane_number: number,
                lane: state.lane.clone(),
                messages: std::mem::replace(&mut messages, rest),
                probe,
                reserved: (redis_clock, now),
            };
            self.batches.spawn(batch.run(self.means.clone()));
        }
    }

    /// A call failed. Where Redis did not answer, everything rests; where the deployment is not there, the forwarder ends;
    /// what is wrong with one shard alone is left to that shard.
    fn failed(&mut self, error: &Error) -> Result<(), Fault> {
        self.means.stats.reserve_errors.inc();
        if matches!(error, Error::Uninitialised(_) | Error::Deployment(_) | Error::Unfit(_) | Error::Closed) {
            return Err(Fault::new(&REDIS_UNUSABLE, "messages cannot be reserved").because(error.clone()));
        }
        if error.advice() == Advice::GiveUp {
            let spoken = self.spoken_of.insert(error.to_string());
            if spoken {
                tracing::error!(%error, "a shard cannot be reserved from: the others go on");
            }
            return Ok(());
        }
        if self.rest_until.is_none() {
            tracing::warn!(%error, "Redis does not answer: trying again");
            self.condition.unready(error.to_string());
            self.next_discovery = Instant::now();
        }
        self.rest_until = Some(Instant::now() + REST_AFTER_ERROR);
        Ok(())
    }

    /// Waits for the batches under way; after the grace their messages are given back.
    async fn drain(&mut self) {
        let wait = async { while self.batches.join_next().await.is_some() {} };
        if tokio::time::timeout(GRACE, wait).await.is_ok() {
            return;
        }
        tracing::warn!(batches = self.batches.len(), "sinks are not through: giving their messages back");
        self.means.give_up.request();
        while self.batches.join_next().await.is_some() {}
    }
}

/// Whether a shard may have more for this lane than it was asked for.
fn left_over(report: &ReserveReport, request: &ReserveRequest) -> bool {
    let bytes: usize = report.messages.iter().map(|message| message.envelope.payload.len()).sum();
    report.messages.len() >= usize::from(request.most) || bytes >= request.most_bytes as usize / 2
}
