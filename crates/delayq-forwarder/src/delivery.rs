//! One batch of one lane: encode → deliver → settle.
//!
//! Confirmed messages are settled while the rest of the batch waits: one partition without a leader must neither hold
//! up nor forget the messages of other partitions.

use crate::circuit::Pass;
use crate::context::{Context, Freed};
use crate::encode::encode;
use crate::lane::{Judgement, Lane};
use crate::lane_state::TopicRoutes;
use crate::pace::Measure;
use crate::settle::{Verdict, settle};
use crate::stats::Late;
use crate::traced::{Delivery, Traced};
use crate::{About, Blame, Outcome, Outcomes, Parcel};
use delayq::protocol::{Receipt, Reservation, UnixMicros, Unrestored};
use delayq_service::{TRACEPARENT, TraceParent, Traces};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::time::{Interval, MissedTickBehavior, interval_at, timeout};

/// Timeouts after which the forwarder abandons a sink call. A sink spends at most one `timeout` on a parcel's turn and
/// one on its answer; the third is slack. Answers received by then count.
const GUARD: u32 = 3;
/// Minimum delay before a message returns when its destination does not rest.
const MIN_REST: Duration = Duration::from_millis(100);
/// Delay before a message returns whose dictionary could not be fetched.
const UNRESTORED_REST: Duration = Duration::from_secs(1);
/// Interval at which confirmed messages are settled while the rest of the batch waits.
const SETTLE_EVERY: Duration = Duration::from_millis(100);

pub(crate) struct Batch {
    pub(crate) lane_number: usize,
    pub(crate) lane: Arc<Lane>,
    pub(crate) messages: Vec<Reservation>,
    pub(crate) bytes: usize,
    pub(crate) routes: TopicRoutes,
    pub(crate) probe: bool,
    /// Time of the reserve, by Redis's clock and by this host's.
    pub(crate) reserved: (UnixMicros, Instant),
    /// Messages that the lane had delivered before this batch.
    pub(crate) delivered_before: u64,
}

pub(crate) struct Report {
    /// Capacity freed since the last report.
    pub(crate) freed: Freed,
    /// The measurement of the delivery; `None`: nothing was sent.
    pub(crate) measure: Option<Measure>,
}

/// The parcels to deliver, with their messages.
#[derive(Default)]
struct Load {
    parcels: Vec<Parcel>,
    /// For each parcel, the index of its message in the batch.
    indices: Vec<usize>,
    /// The trace of each parcel, if recorded.
    traced: Vec<Option<Traced>>,
    /// Messages that the route cannot encode, by index, with the outcome.
    unencoded: Vec<(usize, Outcome)>,
    probed: BTreeSet<String>,
}

struct Progress {
    started: Instant,
    outcomes: Vec<Option<Outcome>>,
    settled: Vec<bool>,
    measure: Measure,
}

// === impl Batch ===

impl Batch {
    pub(crate) async fn run(mut self, context: Context) -> Report {
        let count = self.messages.len();
        context.stats.in_flight(&self.lane.to.name, count as i64);
        let mut verdicts: Vec<Option<Verdict>> = vec![None; count];
        let load = self.load(&mut verdicts, &context.traces);
        let mut progress = Progress::new(load.parcels.len(), self.delivered_before);
        if !load.parcels.is_empty() {
            self.deliver(&context, &load, &mut progress).await;
        }
        // The parcels settled, counted and freed while the rest of the batch waited.
        let early = progress.settled.iter().filter(|settled| **settled).count();
        let measure = progress.measure();
        self.judge(&load, progress, &mut verdicts);
        let settled = std::mem::take(&mut self.messages).into_iter().zip(verdicts);
        let settled = settled.filter_map(|(message, verdict)| Some((message.receipt, verdict?)));
        settle(&context, settled).await;
        let left = count - early;
        context.stats.in_flight(&self.lane.to.name, -(left as i64));
        let delivered = measure.map_or(0, |measure| measure.delivered - early);
        Report {
            freed: Freed { lane_number: self.lane_number, count: left, bytes: self.bytes, delivered },
            measure,
        }
    }

    /// Encodes the batch. Omits messages that cannot be encoded, and messages for a resting destination.
    fn load(&mut self, verdicts: &mut [Option<Verdict>], traces: &Traces) -> Load {
        let now = Instant::now();
        let mut load = Load::default();
        load.parcels.reserve_exact(self.messages.len());
        load.indices.reserve_exact(self.messages.len());
        let mut messages = std::mem::take(&mut self.messages);
        for (i, (message, verdict)) in messages.iter_mut().zip(verdicts).enumerate() {
            if let Some(why) = message.unrestored.take() {
                *verdict = Some(put_back(why));
                continue;
            }
            let traced = Traced::of(traces, message);
            let route = &self.routes[&message.topic];
            match encode(route, self.lane.to.encoding, self.lane.to.event_prefix, message) {
                Err(reason) => {
                    let outcome = Outcome::rejected(reason);
                    if let Some(traced) = traced {
                        self.trace_unencoded(traced, traces, message, &outcome);
                    }
                    load.unencoded.push((i, outcome));
                }
                Ok(parcel) => match self.refusal(&parcel.destination, now, &mut load.probed) {
                    Some(rest) => *verdict = Some(Verdict::rest(rest, "the destination rests")),
                    None => {
                        if let Some(traced) = traced {
                            traced.reserved(traces, message, self.reserved.0);
                        }
                        load.parcels.push(parcel);
                        load.indices.push(i);
                        load.traced.push(traced);
                    }
                },
            }
        }
        self.messages = messages;
        load
    }

    /// Records the spans of a message that its route cannot encode, as a delivery that failed at once.
    fn trace_unencoded(&self, traced: Traced, traces: &Traces, message: &Reservation, outcome: &Outcome) {
        let reserved = self.reserved.0;
        traced.reserved(traces, message, reserved);
        let (about, sink) = (&About::of(message), &self.lane.to.name);
        let delivery = Delivery { about, destination: None, sink, start: reserved, end: reserved };
        traced.delivered(traces, &delivery, outcome);
    }

    /// The remaining rest of the message's destination. Admits one message as a probe.
    fn refusal(&self, destination: &str, now: Instant, probed: &mut BTreeSet<String>) -> Option<Duration> {
        if self.lane.fixed.is_some() {
            return None;
        }
        match self.lane.pass_to(destination, now) {
            Pass::All => None,
            Pass::Probe => {
                self.lane.probing_to(destination);
                probed.insert(destination.to_owned());
                None
            }
            Pass::None(Some(until)) => Some(until.saturating_duration_since(now)),
            Pass::None(None) => Some(Duration::from_millis(100)),
        }
    }

    /// Delivers the load; meanwhile extends leases and settles confirmed messages. On return every parcel has an
    /// outcome unless a drain interrupted the delivery.
    async fn deliver(&self, context: &Context, load: &Load, progress: &mut Progress) {
        let to = &self.lane.to;
        let outcomes = Outcomes::new(load.parcels.len());
        let work = async {
            if let Err(error) = self.lane.check().await {
                return outcomes.put_rest(&Outcome::down(error.to_string()));
            }
            let guard = to.timeout * GUARD;
            let _ = timeout(guard, to.sink.deliver(&load.parcels, &outcomes)).await;
            outcomes.put_rest(&Outcome::silent(format!("the sink did not answer within {guard:?}")));
        };
        let mut work = pin!(work);
        let (mut extend, mut settle) = (every(context.lease / 3), every(SETTLE_EVERY));
        let mut settling = FuturesUnordered::new();
        loop {
            tokio::select! {
                biased;
                () = &mut work => break,
                () = context.give_up.requested() => break,
                _ = extend.tick() => self.extend(context, load, progress).await,
                _ = settle.tick() => {
                    self.note(context, load, progress, &outcomes);
                    let receipts = self.confirmed(load, progress);
                    if !receipts.is_empty() {
                        settling.push(self.settle_early(context, receipts));
                    }
                }
                Some(()) = settling.next(), if !settling.is_empty() => {}
            }
        }
        self.note(context, load, progress, &outcomes);
        while settling.next().await.is_some() {}
        context.stats.delivery(&to.name, progress.started.elapsed());
        context.stats.count(&to.name, progress.outcomes.iter().flatten());
    }

    fn note(&self, context: &Context, load: &Load, progress: &mut Progress, outcomes: &Outcomes) {
        let now = Instant::now();
        let (redis_clock, clock) = self.reserved;
        let confirmed =
            UnixMicros(redis_clock.0 + u64::try_from((now - clock).as_micros()).unwrap_or(u64::MAX));
        let mut late = Vec::new();
        for (k, outcome) in outcomes.fresh() {
            let parcel = &load.parcels[k];
            if let Some(traced) = load.traced[k] {
                let (about, destination) = (&parcel.about, Some(parcel.destination.as_str()));
                let sink = &self.lane.to.name;
                let delivery = Delivery { about, destination, sink, start: redis_clock, end: confirmed };
                traced.delivered(&context.traces, &delivery, &outcome);
            }
            if outcome == Outcome::Delivered {
                let trace = parcel.header(TRACEPARENT).and_then(TraceParent::recorded);
                late.push(Late {
                    class: self.routes[&self.messages[load.indices[k]].topic].config.class(),
                    after: confirmed.since(parcel.about.due),
                    trace: trace.map(TraceParent::trace_id),
                });
                progress.measure.delivered += 1;
                progress.measure.took = Some(now - progress.started);
            }
            progress.outcomes[k] = Some(outcome);
        }
        context.stats.late(&self.lane.to.name, late.into_iter());
    }

    /// Returns the receipts that are confirmed but not settled, and marks these as settled.
    fn confirmed(&self, load: &Load, progress: &mut Progress) -> Vec<Receipt> {
        let Progress { outcomes, settled, .. } = progress;
        let each = outcomes.iter().zip(settled).zip(&load.indices);
        let open = each.filter(|((outcome, settled), _)| **outcome == Some(Outcome::Delivered) && !**settled);
        let take = |((_, settled), &i): ((_, &mut bool), &usize)| {
            *settled = true;
            self.messages[i].receipt.clone()
        };
        open.map(take).collect()
    }

    async fn settle_early(&self, context: &Context, receipts: Vec<Receipt>) {
        let count = receipts.len();
        settle(context, receipts.into_iter().map(|receipt| (receipt, Verdict::Ack))).await;
        context.stats.in_flight(&self.lane.to.name, -(count as i64));
        // The bodies stay in memory until the batch ends.
        context.free(Freed { lane_number: self.lane_number, count, bytes: 0, delivered: count });
    }

    async fn extend(&self, context: &Context, load: &Load, progress: &Progress) {
        let open = load.indices.iter().zip(&progress.settled).filter(|(_, settled)| !**settled);
        let receipts: Vec<Receipt> = open.map(|(&i, _)| self.messages[i].receipt.clone()).collect();
        let settled = context.holder.extend(&receipts, Some(context.lease)).await;
        context.stats.settled(settled.iter().flatten());
    }

    fn judge(&self, load: &Load, progress: Progress, verdicts: &mut [Option<Verdict>]) {
        let Progress { outcomes, settled, .. } = progress;
        let mut destinations: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for (k, parcel) in load.parcels.iter().enumerate().filter(|(k, _)| outcomes[*k].is_some()) {
            destinations.entry(&parcel.destination).or_default().push(k);
        }
        let batch: Vec<(&str, Vec<&Outcome>)> = destinations
            .iter()
            .map(|(destination, which)| {
                (*destination, which.iter().filter_map(|&k| outcomes[k].as_ref()).collect())
            })
            .collect();
        let unencoded: Vec<&Outcome> = load.unencoded.iter().map(|(_, outcome)| outcome).collect();
        let (judgements, mut of_unencoded) = self.lane.judge(&batch, &unencoded, self.probe, Instant::now());
        for ((destination, which), mut judgement) in destinations.into_iter().zip(judgements) {
            let probe = self.probe || load.probed.contains(destination);
            for k in which.into_iter().filter(|&k| !settled[k]) {
                let outcome = outcomes[k].as_ref().expect("only parcels with an outcome are judged");
                let again = load.parcels[k].about.delivery > u32::from(load.parcels[k].about.attempt);
                verdicts[load.indices[k]] = Some(verdict(outcome, &mut judgement, probe, again));
            }
        }
        for (i, outcome) in &load.unencoded {
            verdicts[*i] = Some(verdict(outcome, &mut of_unencoded, self.probe, false));
        }
        for (k, &i) in load.indices.iter().enumerate() {
            if outcomes[k].is_none() {
                verdicts[i] = Some(Verdict::rest(Duration::ZERO, "given back while draining"));
            }
        }
        self.log_buried(load, verdicts);
    }

    fn log_buried(&self, load: &Load, verdicts: &[Option<Verdict>]) {
        let reason = |i: usize| match &verdicts[i] {
            Some(Verdict::Bury(reason)) => Some(reason),
            _ => None,
        };
        let each = load.parcels.iter().zip(&load.indices);
        let mut buried = each.filter_map(|(parcel, &i)| Some((parcel, reason(i)?)));
        if let Some((parcel, reason)) = buried.next() {
            tracing::error!(
                sink = self.lane.to.name,
                destination = parcel.destination,
                topic = parcel.about.topic,
                id = parcel.about.id,
                more = buried.count(),
                reason,
                "buried: the destination will never accept the message"
            );
        }
        let mut buried = load.unencoded.iter().filter_map(|&(i, _)| Some((&self.messages[i], reason(i)?)));
        if let Some((message, reason)) = buried.next() {
            tracing::error!(
                sink = self.lane.to.name,
                topic = %message.topic,
                id = %message.id,
                more = buried.count(),
                reason,
                "buried: the route cannot deliver the message"
            );
        }
    }
}

/// The verdict on a message; `again`: an earlier failure was free.
fn verdict(outcome: &Outcome, judgement: &mut Judgement, probe: bool, again: bool) -> Verdict {
    let rest = judgement.rest;
    match outcome {
        Outcome::Delivered => Verdict::Ack,
        Outcome::Rejected { reason } if judgement.burials > 0 => {
            judgement.burials -= 1;
            Verdict::Bury(reason.clone())
        }
        Outcome::Rejected { reason } => Verdict::Release {
            delay: (!probe).then(|| rest.unwrap_or_default().max(MIN_REST)),
            keep_attempt: !probe,
            reason: reason.clone(),
        },
        Outcome::Unavailable { reason, retry_after, blame } => {
            let burns = judgement.evidence.burns(*blame, probe, rest.is_some(), again);
            let rest = match blame {
                Blame::Nobody => Duration::ZERO,
                _ => rest.unwrap_or_default().max(MIN_REST),
            };
            let delay = if burns { *retry_after } else { Some(rest) };
            Verdict::Release { delay, keep_attempt: !burns, reason: reason.clone() }
        }
    }
}

/// The verdict on a message whose payload could not be decompressed.
fn put_back(why: Unrestored) -> Verdict {
    match why {
        Unrestored::Never(error) => Verdict::Bury(error.to_string()),
        Unrestored::NotNow(reason) => Verdict::rest(UNRESTORED_REST, &reason),
    }
}

/// Ticks every period; the first tick comes after one period.
fn every(period: Duration) -> Interval {
    let mut every = interval_at(tokio::time::Instant::now() + period, period);
    every.set_missed_tick_behavior(MissedTickBehavior::Delay);
    every
}

// === impl Progress ===

impl Progress {
    fn new(count: usize, before: u64) -> Self {
        Self {
            started: Instant::now(),
            outcomes: vec![None; count],
            settled: vec![false; count],
            measure: Measure { before, ..Measure::default() },
        }
    }

    fn measure(&self) -> Option<Measure> {
        let lost = self.outcomes.len() - self.measure.delivered;
        (!self.outcomes.is_empty()).then_some(Measure { lost, ..self.measure })
    }
}
