//! The loop: what is heard, what comes due and what has ended, until it is asked to stop.
//!
//! Nothing is awaited inside a turn. Asks, batches and looks are tasks: so a lane never waits for the answer
//! that another one gets.

use super::{
    Forwarder,
    asking::{Answer, Ask, Bounds, ShardAnswer, payload_bytes},
    board::Board,
    looks::{Looked, Looks, look},
    refused::Refused,
    unrouted::{self, Counted, Waiting},
};
use crate::{
    codes::REDIS_UNUSABLE,
    config::ForwarderConfig,
    delivery::{Batch, Report},
    means::{Freed, Means},
    settle::{Settler, Verdict},
    sharing::Share,
};
use delayq_core::{Advice, Error, Heard, ShardId, TopicHere};
use delayq_service::{Condition, Fault, Shutdown};
use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};
use tokio::{
    sync::mpsc::UnboundedReceiver,
    task::{JoinError, JoinSet},
};

/// How often messages without a route are counted.
const COUNT_EVERY: Duration = Duration::from_secs(10);
/// How long to rest after Redis did not answer.
const REST_AFTER_ERROR: Duration = Duration::from_millis(250);
/// How long the drain waits for sinks before it gives their messages back.
const GRACE: Duration = Duration::from_secs(5);

/// The loop's state: all of it belongs to one task.
pub(super) struct Run {
    means: Means,
    condition: Condition,
    /// Whether no destination is braked.
    destinations: Condition,
    braked: BTreeSet<usize>,
    settings: ForwarderConfig,
    board: Board,
    under_way: JoinSet<Ended>,
    looks: Looks,
    unrouted: Waiting,
    /// When they are counted; `None` while they are.
    next_count: Option<Instant>,
    /// Redis did not answer: nothing before this.
    rest_until: Option<Instant>,
    /// Errors of single shards that were logged.
    spoken_of: BTreeSet<String>,
    /// Topics that a shard set aside, because a key of theirs is of the wrong type.
    refused: Refused,
    share: Share,
    /// What batches free before they end.
    freed: UnboundedReceiver<Freed>,
}

/// A task that is over.
enum Ended {
    Ask(Answer),
    Batch(Report),
    Look(Looked),
    Count(Counted),
}

// === impl Run ===

impl Run {
    pub(super) fn new(forwarder: Forwarder) -> Self {
        let board = Board::new(&forwarder);
        let Forwarder { client, settings, stats, condition, destinations, share, .. } = forwarder;
        let now = Instant::now();
        let refused = Refused::new(stats.refused_topics.clone());
        let (means, freed) = Means::new(client, *settings.forwarder.lease, stats);
        Self {
            means,
            condition,
            destinations,
            braked: BTreeSet::new(),
            looks: Looks::new(*settings.forwarder.look_every, now),
            unrouted: Waiting::new(),
            next_count: Some(now),
            settings: settings.forwarder,
            board,
            under_way: JoinSet::new(),
            rest_until: None,
            spoken_of: BTreeSet::new(),
            refused,
            share,
            freed,
        }
    }

    /// Forwards until shutdown is asked for.
    ///
    /// # Errors
    /// The deployment does not exist in this Redis.
    pub(super) async fn until(&mut self, shutdown: &Shutdown) -> Result<(), Fault> {
        self.means.stats.shards.set(self.board.shards().len() as i64);
        // The plan may have nothing for it yet.
        while self.board.shards().is_empty() {
            self.condition.ready();
            tokio::select! {
                () = shutdown.requested() => return Ok(()),
                shards = self.share.changed() => self.take_from(shards?),
            }
        }
        let mut listener = self.means.client.listen_for_ready(self.board.shards().to_vec());
        loop {
            let wake = self.next_wake();
            tokio::select! {
                biased;
                () = shutdown.requested() => return Ok(()),
                Some(ended) = self.under_way.join_next(), if !self.under_way.is_empty() => self.ended(ended)?,
                shards = self.share.changed() => {
                    self.take_from(shards?);
                    // Without a shard, whatever the old one hears is passed over.
                    if !self.board.shards().is_empty() {
                        listener = self.means.client.listen_for_ready(self.board.shards().to_vec());
                    }
                }
                Some(freed) = self.freed.recv() => self.free(freed),
                heard = listener.next() => self.hear(heard),
                () = tokio::time::sleep_until(wake.into()) => {}
            }
            while let Some(ended) = self.under_way.try_join_next() {
                self.ended(ended)?;
            }
            while let Ok(freed) = self.freed.try_recv() {
                self.free(freed);
            }
            while let Some(heard) = listener.try_next() {
                self.hear(heard);
            }
            self.turn();
        }
    }

    /// Takes from these shards from now on.
    fn take_from(&mut self, shards: Vec<ShardId>) {
        self.means.stats.shards.set(shards.len() as i64);
        self.looks.sweep(&shards);
        self.board.take_from(shards);
    }

    /// One turn: looks that are due, and what can be asked for.
    fn turn(&mut self) {
        let now = Instant::now();
        if self.rest_until.is_some_and(|until| now < until) {
            return;
        }
        self.rest_until = None;
        let pages = self.looks.due(self.board.shards(), now);
        if !pages.is_empty() {
            let client = self.means.client.clone();
            self.under_way.spawn(async { Ended::Look(look(client, pages).await) });
        }
        if self.next_count.is_some_and(|at| now >= at) {
            self.next_count = None;
            let (client, topics) = (self.means.client.clone(), self.unrouted.clone());
            self.under_way.spawn(async { Ended::Count(unrouted::count(client, topics).await) });
        }
        let bounds = self.bounds();
        for ask in Ask::all(&mut self.board, &self.means, bounds, now) {
            let means = self.means.clone();
            self.under_way.spawn(async { Ended::Ask(ask.run(means).await) });
        }
    }

    fn bounds(&self) -> Bounds {
        let (of_a_shard, of_all) = (self.settings.most_bytes.bytes(), self.settings.in_flight_bytes.bytes());
        Bounds {
            of_a_shard: u32::try_from(of_a_shard).unwrap_or(u32::MAX),
            of_all: usize::try_from(of_all).unwrap_or(usize::MAX),
        }
    }

    /// When to look without being told anything.
    fn next_wake(&self) -> Instant {
        let now = Instant::now();
        // Where too many bytes are on their way, what comes back is the reason to ask again.
        let full = self.bounds().free_bytes(&self.board) == 0;
        let lanes = self.board.lanes.iter().filter(|_| !full).filter_map(|lane| lane.next(now));
        let first = lanes.chain(self.next_count).chain(self.looks.next(now)).min();
        let first = first.unwrap_or_else(|| now + *self.settings.look_every);
        self.rest_until.map_or(first, |until| first.max(until))
    }

    fn hear(&mut self, heard: Heard) {
        let now = Instant::now();
        match heard {
            Heard::Ready(shard, Some(topic)) => {
                self.board.heat_topic(shard, &topic, now);
            }
            Heard::Ready(shard, None) => self.board.heat(shard, now),
            Heard::Resync => self.looks.sweep(self.board.shards()),
            Heard::Wake(..) => {}
        }
    }

    fn ended(&mut self, ended: Result<Ended, JoinError>) -> Result<(), Fault> {
        match ended {
            Ok(Ended::Ask(answer)) => self.take(answer),
            Ok(Ended::Batch(report)) => {
                self.free(report.freed);
                self.note_brake(report.freed.lane_number);
                if let Some(measure) = report.measure {
                    self.board.lanes[report.freed.lane_number].pace.measured(measure);
                }
                Ok(())
            }
            Ok(Ended::Look(looked)) => self.looked(looked),
            Ok(Ended::Count(counted)) => self.counted(counted),
            Err(panic) => std::panic::resume_unwind(panic.into_panic()),
        }
    }

    /// Says whether a destination rests because it rejects message after message.
    fn note_brake(&mut self, lane_number: usize) {
        let braked = self.board.lanes[lane_number].lane.is_braked();
        let changed = if braked { self.braked.insert(lane_number) } else { self.braked.remove(&lane_number) };
        if !changed {
            return;
        }
        let named = self.braked.iter().map(|number| {
            let lane = &self.board.lanes[*number].lane;
            format!("{} `{}`", lane.to.name, lane.label())
        });
        let named: Vec<String> = named.collect();
        if named.is_empty() {
            self.destinations.ready();
        } else {
            let named = named.join(", ");
            self.destinations.unready(format!("rejecting message after message, and resting: {named}"));
        }
    }

    /// Some of a lane is on its way no more.
    fn free(&mut self, freed: Freed) {
        let state = &mut self.board.lanes[freed.lane_number];
        state.in_flight -= freed.count;
        state.bytes -= freed.bytes;
        state.pace.count(freed.delivered);
    }

    /// Takes what was reserved, and starts its batches. What was reserved is under way even where a shard failed.
    fn take(&mut self, answer: Answer) -> Result<(), Fault> {
        let now = Instant::now();
        for found in &answer.shards {
            let takes = self.board.takes_from(found.shard);
            let state = &mut self.board.lanes[answer.lane];
            state.answered(found, now, now + REST_AFTER_ERROR);
            if !takes {
                state.cool(found.shard);
            }
        }
        let Answer { lane: lane_number, probe, shards, room } = answer;
        let (mut messages, mut redis_clock, mut errors) = (Vec::new(), None, Vec::new());
        for ShardAnswer { shard, topics, found, .. } in shards {
            let names = &self.board.lanes[lane_number].topics;
            self.refused.note(shard, topics.iter().map(|topic| &names[*topic]), &found);
            match found {
                Err(error) => errors.push(error),
                Ok(report) => {
                    redis_clock = redis_clock.max(Some(report.now));
                    messages.extend(report.messages);
                }
            }
        }
        let state = &mut self.board.lanes[lane_number];
        state.in_flight -= room.0 - messages.len();
        state.pace.not_found(room.0 - messages.len());
        state.bytes = state.bytes + payload_bytes(&messages) - room.1;
        if probe && messages.is_empty() {
            state.unprobed(now);
        }
        while let Some(redis_clock) = redis_clock.filter(|_| !messages.is_empty()) {
            let rest = messages.split_off(messages.len().min(state.lane.to.batch));
            let messages = std::mem::replace(&mut messages, rest);
            let batch = Batch {
                lane_number,
                lane: state.lane.clone(),
                bytes: payload_bytes(&messages),
                messages,
                routes: state.routes.clone(),
                probe,
                reserved: (redis_clock, now),
                delivered_before: state.pace.delivered(),
            };
            let means = self.means.clone();
            self.under_way.spawn(async { Ended::Batch(batch.run(means).await) });
        }
        errors.iter().try_for_each(|error| self.failed(error))
    }

    fn looked(&mut self, looked: Looked) -> Result<(), Fault> {
        let now = Instant::now();
        self.looks.ended();
        for (shard, page) in looked {
            match page {
                Err(error) => {
                    if error.advice() == Advice::GiveUp {
                        // It does not say what it has: all that was met may be there.
                        self.looks.answered(shard, None);
                        self.board.heat(shard, now);
                    }
                    self.failed(&error)?;
                }
                Ok(page) => {
                    self.condition.ready();
                    self.looks.answered(shard, page.next);
                    for here in page.topics {
                        self.seen(shard, here, now);
                    }
                    // Whether these are in order again only an ask can tell.
                    for topic in self.refused.of(shard) {
                        self.board.heat_topic(shard, topic, now);
                    }
                }
            }
        }
        Ok(())
    }

    /// A shard has this topic.
    fn seen(&mut self, shard: ShardId, TopicHere { topic, waiting }: TopicHere, now: Instant) {
        if !waiting {
            self.board.meet(&topic);
        } else if !self.board.heat_topic(shard, &topic, now) && self.unrouted.insert(topic) {
            self.next_count = self.next_count.map(|_| now);
        }
    }

    fn counted(&mut self, counted: Counted) -> Result<(), Fault> {
        self.next_count = Some(Instant::now() + COUNT_EVERY);
        let counted = match counted {
            Ok(counted) => counted,
            Err(error) => return self.failed(&error),
        };
        let ready = counted.iter().map(|(_, ready)| *ready).sum::<u64>();
        self.means.stats.unrouted_messages.set(i64::try_from(ready).unwrap_or(i64::MAX));
        for (topic, _) in counted.iter().filter(|(_, ready)| *ready == 0) {
            self.unrouted.remove(topic);
        }
        Ok(())
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
        let now = Instant::now();
        if self.rest_until.is_none() {
            tracing::warn!(%error, "Redis does not answer: trying again");
            self.condition.unready(error.to_string());
            self.looks.sweep(self.board.shards());
        }
        self.rest_until = Some(now + REST_AFTER_ERROR);
        Ok(())
    }

    /// This forwarder's share, to be left; nothing is asked for any more.
    pub(super) fn take_share(&mut self) -> Share {
        std::mem::replace(&mut self.share, Share::all(&self.means.client))
    }

    /// Waits for what is under way; after the grace the messages that are not delivered are given back. What an ask
    /// still brings is given back at once.
    pub(super) async fn drain(&mut self) {
        self.condition.unready("draining");
        if tokio::time::timeout(GRACE, self.finish()).await.is_ok() {
            return;
        }
        tracing::warn!(batches = self.under_way.len(), "sinks are not through: giving their messages back");
        self.means.give_up.request();
        self.finish().await;
    }

    /// Until nothing is under way. Safe to drop: an answer is given back by a task of its own.
    async fn finish(&mut self) {
        while let Some(ended) = self.under_way.join_next().await {
            match ended {
                Ok(Ended::Ask(answer)) => self.give_back(answer),
                Ok(Ended::Batch(_) | Ended::Look(_) | Ended::Count(_)) => {}
                Err(panic) => std::panic::resume_unwind(panic.into_panic()),
            }
        }
    }

    fn give_back(&mut self, answer: Answer) {
        let lane_number = answer.lane;
        let reports = answer.shards.into_iter().filter_map(|shard| shard.found.ok());
        let messages: Vec<_> = reports.flat_map(|report| report.messages).collect();
        if messages.is_empty() {
            return;
        }
        let means = self.means.clone();
        self.under_way.spawn(async move {
            let settler = Settler::new(&means);
            let (count, bytes) = (messages.len(), payload_bytes(&messages));
            let rest = Verdict::rest(Duration::ZERO, "given back while draining");
            settler.settle(messages.into_iter().map(|message| (message.receipt, rest.clone()))).await;
            let freed = Freed { lane_number, count, bytes, delivered: 0 };
            Ended::Batch(Report { freed, measure: None })
        });
    }
}
