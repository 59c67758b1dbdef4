//! One batch of one lane: encode → deliver → settle.
//!
//! Confirmed messages are settled while the rest of the batch waits: one partition without a leader must neither hold
//! up nor forget the messages of other partitions.

mod batch;
mod load;
mod verdicts;

pub(crate) use batch::LaneBatch;

use crate::Parcel;
use crate::context::{Context, Freed};
use crate::pace::Measure;
use crate::settle::{Verdict, settle};
use crate::stats::Late;
use crate::traced::Delivery;
use delayq::protocol::{Receipt, UnixMicros};
use delayq_service::brokers::{Outcome, Outcomes};
use delayq_service::{TRACEPARENT, TraceParent};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use load::{Item, Load};
use std::pin::pin;
use std::time::{Duration, Instant};
use tokio::time::{Interval, MissedTickBehavior, interval_at, timeout};

/// Timeouts after which the forwarder abandons a sink call. A sink spends at most one `timeout` on a parcel's turn and
/// one on its answer; the third is slack. Answers received by then count.
const GUARD: u32 = 3;
/// Interval at which confirmed messages are settled while the rest of the batch waits.
const SETTLE_EVERY: Duration = Duration::from_millis(100);

pub(crate) struct Report {
    pub(crate) freed: Freed,
    /// `None`: nothing was sent.
    pub(crate) measure: Option<Measure>,
}

struct SinkCall {
    started: Instant,
    /// The message of each parcel, at the parcel's index.
    items: Vec<Item>,
    measure: Measure,
}

// === impl LaneBatch ===

impl LaneBatch {
    pub(crate) async fn run(mut self, context: Context) -> Report {
        let (messages, sink) = (std::mem::take(&mut self.messages), self.lane.to.name.clone());
        let count = messages.len();
        context.stats.in_flight(&sink, count as i64);
        let (load, items) = Load::new(&self, messages, &context.traces);
        let mut progress = SinkCall::new(items, self.delivered_before);
        if !progress.items.is_empty() {
            self.deliver(&context, &load.parcels, &mut progress).await;
        }
        // Settled, counted and freed while the rest of the batch waited.
        let early = progress.items.iter().filter(|item| item.settled).count();
        let measure = progress.measure();
        settle(&context, self.verdicts(load, &progress.items).into_iter()).await;
        let left = count - early;
        context.stats.in_flight(&sink, -(left as i64));
        let delivered = measure.map_or(0, |measure| measure.delivered - early);
        Report {
            freed: Freed { lane_number: self.lane_number, count: left, bytes: self.bytes, delivered },
            measure,
        }
    }

    /// Meanwhile extends leases and settles confirmed messages. On return every item has an outcome unless a
    /// drain interrupted the delivery.
    async fn deliver(&self, context: &Context, parcels: &[Parcel], progress: &mut SinkCall) {
        let to = &self.lane.to;
        let outcomes = Outcomes::new(parcels.len());
        let work = async {
            if let Err(error) = self.lane.check().await {
                return outcomes.put_rest(&Outcome::down(error.to_string()));
            }
            let guard = to.timeout * GUARD;
            let _ = timeout(guard, to.sink.deliver(parcels, &outcomes)).await;
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
                _ = extend.tick() => progress.extend(context).await,
                _ = settle.tick() => {
                    self.note(context, parcels, progress, &outcomes);
                    let receipts = progress.confirmed();
                    if !receipts.is_empty() {
                        settling.push(self.settle_early(context, receipts));
                    }
                }
                Some(()) = settling.next(), if !settling.is_empty() => {}
            }
        }
        self.note(context, parcels, progress, &outcomes);
        while settling.next().await.is_some() {}
        context.stats.delivery(&to.name, progress.started.elapsed());
        context.stats.count(&to.name, progress.items.iter().filter_map(|item| item.outcome.as_ref()));
    }

    fn note(&self, context: &Context, parcels: &[Parcel], progress: &mut SinkCall, outcomes: &Outcomes) {
        let (now, sink) = (Instant::now(), &self.lane.to.name);
        let SinkCall { started, items, measure } = progress;
        let (redis_clock, clock) = self.reserved;
        let confirmed =
            UnixMicros(redis_clock.0 + u64::try_from((now - clock).as_micros()).unwrap_or(u64::MAX));
        let mut late = Vec::new();
        for (k, outcome) in outcomes.fresh() {
            let (parcel, item) = (&parcels[k], &mut items[k]);
            if let Some(traced) = item.traced {
                let (about, destination) = (&parcel.about, Some(parcel.destination.as_str()));
                let delivery = Delivery { about, destination, sink, start: redis_clock, end: confirmed };
                traced.delivered(&context.traces, &delivery, &outcome);
            }
            if outcome == Outcome::Delivered {
                let trace = parcel.header(TRACEPARENT).and_then(TraceParent::recorded);
                late.push(Late {
                    route: item.route.clone(),
                    after: confirmed.since(parcel.about.due),
                    trace: trace.map(TraceParent::trace_id),
                });
                measure.delivered += 1;
                measure.took = Some(now - *started);
            }
            item.outcome = Some(outcome);
        }
        context.stats.late(late);
    }

    async fn settle_early(&self, context: &Context, receipts: Vec<Receipt>) {
        let count = receipts.len();
        settle(context, receipts.into_iter().map(|receipt| (receipt, Verdict::Ack))).await;
        context.stats.in_flight(&self.lane.to.name, -(count as i64));
        // The bodies stay in memory until the batch ends.
        context.free(Freed { lane_number: self.lane_number, count, bytes: 0, delivered: count });
    }
}

fn every(period: Duration) -> Interval {
    let mut every = interval_at(tokio::time::Instant::now() + period, period);
    every.set_missed_tick_behavior(MissedTickBehavior::Delay);
    every
}

// === impl SinkCall ===

impl SinkCall {
    fn new(items: Vec<Item>, before: u64) -> Self {
        Self { started: Instant::now(), items, measure: Measure { before, ..Measure::default() } }
    }

    /// Marks these receipts as settled.
    fn confirmed(&mut self) -> Vec<Receipt> {
        let open = |item: &&mut Item| item.outcome == Some(Outcome::Delivered) && !item.settled;
        let take = |item: &mut Item| {
            item.settled = true;
            item.receipt.clone()
        };
        self.items.iter_mut().filter(open).map(take).collect()
    }

    async fn extend(&self, context: &Context) {
        let open = self.items.iter().filter(|item| !item.settled);
        let receipts: Vec<Receipt> = open.map(|item| item.receipt.clone()).collect();
        let settled = context.holder.extend(&receipts, Some(context.lease)).await;
        context.stats.settled(settled.iter().flatten());
    }

    fn measure(&self) -> Option<Measure> {
        let lost = self.items.len() - self.measure.delivered;
        (!self.items.is_empty()).then_some(Measure { lost, ..self.measure })
    }
}
