//! The loop: notifications, due work and ended tasks, until shutdown.
//!
//! Nothing is awaited inside a turn: asks, batches and polls are tasks, so no lane waits for another lane's answer.

use super::asking::{Ask, Bounds, ReserveAnswer, ShardAnswer, payload_bytes};
use super::built::Built;
use super::judge::Judge;
use super::lane_table::LaneTable;
use super::polls::{Polled, Polls, poll};
use super::shared;
use super::unrouted::{self, UnroutedCounts, UnroutedTopics};
use crate::config::ForwarderConfig;
use crate::context::{Context, Freed};
use crate::delivery::{LaneBatch, Report};
use crate::settle::{Verdict, settle};
use delayq::protocol::{Growth, Holder, Notification, ShardId, TopicHere};
use delayq::{Advice, Error, Topic};
use delayq_service::{Condition, Fault, Readiness, Shutdown};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::{JoinError, JoinSet};

const COUNT_EVERY: Duration = Duration::from_secs(10);
const REST_AFTER_ERROR: Duration = Duration::from_millis(250);
/// Maximum bytes of payloads in one answer of a shard.
const MAX_BYTES_OF_A_SHARD: u32 = 1 << 20;
/// Maximum time without a turn before the loop counts as stuck.
const STUCK_AFTER: Duration = Duration::from_secs(10);
/// Maximum time that a drain waits for sinks before releasing messages.
const GRACE: Duration = Duration::from_secs(5);

pub(super) struct Run {
    context: Context,
    condition: Condition,
    readiness: Readiness,
    judge: Judge,
    settings: ForwarderConfig,
    table: LaneTable,
    under_way: JoinSet<Ended>,
    polls: Polls,
    unrouted: UnroutedTopics,
    shared: BTreeSet<Topic>,
    /// `None` while a count runs.
    next_count: Option<Instant>,
    /// After Redis failed to answer: nothing is sent before this time.
    rest_until: Option<Instant>,
    in_part: bool,
    logged_errors: BTreeSet<String>,
    growth: Growth,
    /// From batches that have not ended.
    freed: UnboundedReceiver<Freed>,
}

enum Ended {
    Ask(ReserveAnswer),
    Batch(Report),
    Poll(Polled),
    Count(UnroutedCounts, BTreeSet<Topic>),
}

// === impl Run ===

impl Run {
    pub(super) fn new(built: Built) -> Self {
        let table = LaneTable::new(&built);
        let Built { client, settings, stats, traces, condition, destinations, readiness, growth, .. } = built;
        let now = Instant::now();
        let (context, freed) = Context::new(Holder::new(client), *settings.forwarder.lease, stats, traces);
        Self {
            context,
            condition,
            judge: Judge::new(destinations, &readiness, now),
            readiness,
            polls: Polls::new(*settings.forwarder.poll_interval, now),
            unrouted: UnroutedTopics::new(),
            shared: BTreeSet::new(),
            next_count: Some(now),
            settings: settings.forwarder,
            table,
            under_way: JoinSet::new(),
            rest_until: None,
            in_part: false,
            logged_errors: BTreeSet::new(),
            growth,
            freed,
        }
    }

    /// Fails if Redis holds another deployment, or is unfit.
    pub(super) async fn until(&mut self, shutdown: &Shutdown) -> Result<(), Fault> {
        self.context.stats.shards.set(self.table.shards().len() as i64);
        let mut listener = self.context.holder.listen(self.table.shards().to_vec());
        let heartbeat = self.readiness.heartbeat("forward", STUCK_AFTER);
        loop {
            heartbeat.beat();
            let wake = self.next_wake();
            tokio::select! {
                biased;
                () = shutdown.requested() => return Ok(()),
                Some(ended) = self.under_way.join_next(), if !self.under_way.is_empty() => self.ended(ended)?,
                shards = self.growth.next() => {
                    self.serve(shards.shards().collect());
                    listener = self.context.holder.listen(self.table.shards().to_vec());
                }
                Some(freed) = self.freed.recv() => self.free(freed),
                notification = listener.next() => self.notified(notification),
                () = tokio::time::sleep_until(wake.into()) => {}
            }
            while let Some(ended) = self.under_way.try_join_next() {
                self.ended(ended)?;
            }
            while let Ok(freed) = self.freed.try_recv() {
                self.free(freed);
            }
            while let Some(heard) = listener.try_next() {
                self.notified(heard);
            }
            self.judge.progress(&self.context, &self.table, Instant::now());
            self.turn();
        }
    }

    fn serve(&mut self, shards: Vec<ShardId>) {
        self.context.stats.shards.set(shards.len() as i64);
        self.polls.sweep(&shards);
        self.context.progress().serve(&shards);
        self.table.serve(shards);
    }

    fn turn(&mut self) {
        let now = Instant::now();
        if self.rest_until.is_some_and(|until| now < until) {
            return;
        }
        self.rest_until = None;
        let pages = self.polls.due(self.table.shards(), now);
        if !pages.is_empty() {
            let context = self.context.clone();
            self.under_way.spawn(async { Ended::Poll(poll(context, pages).await) });
        }
        if self.next_count.is_some_and(|at| now >= at) {
            self.next_count = None;
            let (client, topics) = (self.context.holder.client().clone(), self.unrouted.clone());
            let shared = shared::with_workers(client.clone(), self.table.routed());
            self.under_way.spawn(async { Ended::Count(unrouted::count(client, topics).await, shared.await) });
        }
        let bounds = self.bounds();
        for ask in Ask::all(&mut self.table, &self.context, bounds, now) {
            let context = self.context.clone();
            self.under_way.spawn(async { Ended::Ask(ask.run(context).await) });
        }
    }

    fn bounds(&self) -> Bounds {
        let of_all = usize::try_from(self.settings.in_flight_bytes.bytes()).unwrap_or(usize::MAX);
        Bounds { of_a_shard: MAX_BYTES_OF_A_SHARD, of_all }
    }

    fn next_wake(&self) -> Instant {
        let now = Instant::now();
        // While too many bytes are in flight, the end of a batch triggers the next ask.
        let full = self.bounds().free_bytes(&self.table) == 0;
        let lanes = self.table.lanes.iter().filter(|_| !full).filter_map(|lane| lane.next(now));
        let first = lanes.chain(self.next_count).chain(self.polls.next(now)).min();
        let first = first.map_or(self.judge.next(), |first| first.min(self.judge.next()));
        self.rest_until.map_or(first, |until| first.max(until))
    }

    fn notified(&mut self, heard: Notification) {
        let now = Instant::now();
        match heard {
            Notification::Ready(shard, Some(topic)) => {
                self.table.heat_topic(shard, &topic, now);
            }
            Notification::Ready(shard, None) => self.table.heat(shard, now),
            Notification::Resync => self.polls.sweep(self.table.shards()),
            Notification::Wake(..) | Notification::Freed(..) => {}
        }
    }

    fn ended(&mut self, ended: Result<Ended, JoinError>) -> Result<(), Fault> {
        match ended {
            Ok(Ended::Ask(answer)) => self.answered(answer),
            Ok(Ended::Batch(report)) => {
                self.free(report.freed);
                self.judge.brake(&self.table, report.freed.lane_number);
                if let Some(measure) = report.measure {
                    self.table.lanes[report.freed.lane_number].pace.measured(measure);
                }
                Ok(())
            }
            Ok(Ended::Poll(polled)) => self.polled(polled),
            Ok(Ended::Count(counted, shared)) => {
                shared::note(&mut self.shared, shared);
                self.counted(counted)
            }
            Err(panic) => std::panic::resume_unwind(panic.into_panic()),
        }
    }

    fn free(&mut self, freed: Freed) {
        let state = &mut self.table.lanes[freed.lane_number];
        state.in_flight -= freed.count;
        state.bytes -= freed.bytes;
        state.pace.count(freed.delivered);
    }

    /// Starts batches of the reserved messages, even if some of the shards failed.
    fn answered(&mut self, answer: ReserveAnswer) -> Result<(), Fault> {
        let now = Instant::now();
        for found in &answer.shards {
            let is_served = self.table.serves(found.shard);
            let state = &mut self.table.lanes[answer.lane];
            state.answered(found, now, now + REST_AFTER_ERROR);
            if is_served {
                // Such a key is the operator's to mend: the shard itself is well.
                let answered = found.found.as_ref().map_or_else(Error::is_wrong_type, |_| true);
                self.context.progress().reserved(answer.lane, found.shard, answered, now);
            } else {
                state.cool(found.shard);
            }
        }
        let ReserveAnswer { lane: lane_number, probe, shards, room } = answer;
        let (mut messages, mut redis_clock, mut errors) = (Vec::new(), None, Vec::new());
        for ShardAnswer { shard, found, .. } in shards {
            match found {
                Err(error) => errors.push(error),
                Ok(report) => {
                    report.refused.iter().for_each(|topic| self.passed_over(shard, topic));
                    redis_clock = redis_clock.max(Some(report.now));
                    messages.extend(report.messages);
                }
            }
        }
        let state = &mut self.table.lanes[lane_number];
        state.in_flight -= room.0 - messages.len();
        state.pace.not_found(room.0 - messages.len());
        state.bytes = state.bytes + payload_bytes(&messages) - room.1;
        if probe && messages.is_empty() {
            state.unprobed(now);
        }
        while let Some(redis_clock) = redis_clock.filter(|_| !messages.is_empty()) {
            let rest = messages.split_off(messages.len().min(state.lane.to.batch));
            let messages = std::mem::replace(&mut messages, rest);
            let batch = LaneBatch {
                lane_number,
                lane: state.lane.clone(),
                bytes: payload_bytes(&messages),
                messages,
                routes: state.routes.clone(),
                probe,
                reserved: (redis_clock, now),
                delivered_before: state.pace.delivered(),
            };
            let context = self.context.clone();
            self.under_way.spawn(async { Ended::Batch(batch.run(context).await) });
        }
        errors.iter().try_for_each(|error| self.failed(error))
    }

    /// The next poll asks for the topic again.
    fn passed_over(&mut self, shard: ShardId, topic: &Topic) {
        if self.logged_errors.insert(format!("{shard} {topic}")) {
            tracing::error!(%shard, %topic, "a key of this topic has the wrong type: its messages in this shard wait, other topics continue");
        }
    }

    fn polled(&mut self, polled: Polled) -> Result<(), Fault> {
        let now = Instant::now();
        self.polls.ended();
        let (mut trouble, mut answered) = (None, false);
        for error in polled.wrote.into_iter().filter_map(Result::err) {
            self.failed(&error)?;
            trouble = trouble.or(Some(error));
        }
        for (shard, page) in polled.pages {
            match page {
                Err(error) => {
                    self.failed(&error)?;
                    if is_of_one_shard(&error) {
                        // The shard cannot name its topics: any known topic may have messages there.
                        self.polls.answered(shard, None);
                        self.table.heat(shard, now);
                    } else {
                        trouble = trouble.or(Some(error));
                    }
                }
                Ok(page) => {
                    answered = true;
                    self.polls.answered(shard, page.next);
                    for here in page.topics {
                        self.seen(shard, here, now);
                    }
                    // Only an ask can show whether these lanes have recovered.
                    let failing = self.context.progress().failing(shard);
                    for lane in failing {
                        self.table.lanes[lane].heat_all(shard, now);
                    }
                }
            }
        }
        match trouble {
            Some(error) => self.condition.unready(error.to_string()),
            None if answered => self.well(),
            None => {}
        }
        Ok(())
    }

    /// Every node answered a poll and accepts writes, and no shard is missing.
    fn well(&mut self) {
        self.condition.ready();
        if std::mem::replace(&mut self.in_part, false) {
            tracing::info!("every shard is served again");
        }
    }

    fn seen(&mut self, shard: ShardId, TopicHere { topic, waiting }: TopicHere, now: Instant) {
        if topic.is_odd() {
            if self.logged_errors.insert(topic.to_string()) {
                tracing::error!(%topic, "ignoring a topic whose name breaks the rules: purge and delete it");
            }
        } else if !waiting {
            self.table.add(&topic);
        } else if !self.table.heat_topic(shard, &topic, now) && self.unrouted.insert(topic) {
            self.next_count = self.next_count.map(|_| now);
        }
    }

    fn counted(&mut self, counted: UnroutedCounts) -> Result<(), Fault> {
        self.next_count = Some(Instant::now() + COUNT_EVERY);
        let counted = match counted {
            Ok(counted) => counted,
            Err(error) => return self.failed(&error),
        };
        let ready = counted.iter().map(|(_, ready)| *ready).sum::<u64>();
        self.context.stats.unrouted_messages.set(i64::try_from(ready).unwrap_or(i64::MAX));
        for (topic, _) in counted.iter().filter(|(_, ready)| *ready == 0) {
            self.unrouted.remove(topic);
        }
        Ok(())
    }

    /// Without an answer, everything on that Redis (with several nodes: the shards of that node) rests; a
    /// missing shard, or a shard with an error of its own, rests alone.
    fn failed(&mut self, error: &Error) -> Result<(), Fault> {
        self.context.stats.reserve_errors.inc();
        if matches!(error, Error::Deployment(_) | Error::Unfit(_) | Error::Closed) {
            return Err(Fault::of_redis("reserve messages", error.clone()));
        }
        if is_of_one_shard(error) {
            let is_new = self.logged_errors.insert(error.to_string());
            if is_new {
                tracing::error!(%error, "cannot reserve from a shard; the others continue");
            }
            return Ok(());
        }
        let until = Instant::now() + REST_AFTER_ERROR;
        let missing = match error {
            Error::Uninitialised(shard) => Some(*shard),
            _ => None,
        };
        if missing.is_some() || !self.context.places.is_one() {
            // Only the lanes of this Redis rest. A missing shard is polled until the shard is back.
            self.polls.rest(until);
            if let Some(shard) = missing.filter(|&shard| self.table.serves(shard)) {
                self.polls.sweep(&[shard]);
            }
            if !std::mem::replace(&mut self.in_part, true) {
                tracing::warn!(%error, "some shards cannot be served: retrying, the others continue");
            }
            return Ok(());
        }
        if self.rest_until.is_none() {
            tracing::warn!(%error, "Redis cannot be used now: retrying");
            self.condition.unready(error.to_string());
            self.polls.sweep(self.table.shards());
        }
        self.rest_until = Some(until);
        Ok(())
    }

    /// Waits for work in flight. After the grace, undelivered messages are released; messages that a late ask returns
    /// are released at once.
    pub(super) async fn drain(&mut self) {
        self.condition.unready("draining");
        if tokio::time::timeout(GRACE, self.finish()).await.is_ok() {
            return;
        }
        tracing::warn!(batches = self.under_way.len(), "sinks have not finished: returning their messages");
        self.context.give_up.request();
        self.finish().await;
    }

    /// Cancel safe: a separate task releases the messages of an answer.
    async fn finish(&mut self) {
        while let Some(ended) = self.under_way.join_next().await {
            match ended {
                Ok(Ended::Ask(answer)) => self.give_back(answer),
                Ok(Ended::Batch(_) | Ended::Poll(_) | Ended::Count(..)) => {}
                Err(panic) => std::panic::resume_unwind(panic.into_panic()),
            }
        }
    }

    fn give_back(&mut self, answer: ReserveAnswer) {
        let lane_number = answer.lane;
        let reports = answer.shards.into_iter().filter_map(|shard| shard.found.ok());
        let messages: Vec<_> = reports.flat_map(|report| report.messages).collect();
        if messages.is_empty() {
            return;
        }
        let context = self.context.clone();
        self.under_way.spawn(async move {
            let (count, bytes) = (messages.len(), payload_bytes(&messages));
            let rest = Verdict::rest(Duration::ZERO, "returned while draining");
            settle(&context, messages.into_iter().map(|message| (message.receipt, rest.clone()))).await;
            let freed = Freed { lane_number, count, bytes, delivered: 0 };
            Ended::Batch(Report { freed, measure: None })
        });
    }
}

/// True if a repeat would fail too while other shards are well. A missing shard may be restored.
fn is_of_one_shard(error: &Error) -> bool {
    error.advice() == Advice::GiveUp && !matches!(error, Error::Uninitialised(_))
}
