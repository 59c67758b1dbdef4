//! One batch of one lane: encode → deliver → settle.
//!
//! What is confirmed is settled while the rest of the batch waits: one partition without a leader must not hold up the
//! messages of the others, nor forget them when it takes too long.

use crate::{
    Blame, Outcome, Outcomes, Parcel,
    circuit::Pass,
    encode::encode,
    lane::{Judgement, Lane},
    lane_state::TopicRoutes,
    means::{Freed, Means},
    pace::Measure,
    settle::{Settler, Verdict},
};
use delayq_core::{Receipt, Reservation, UnixMicros, Unrestored};
use futures_util::{StreamExt, stream::FuturesUnordered};
use std::{
    collections::{BTreeMap, BTreeSet},
    pin::pin,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::time::{Interval, MissedTickBehavior, interval_at, timeout};

/// A sink keeps its own time: so long for a parcel's turn, and so long for its answer. This many times of it, the forwarder
/// stops waiting for one that does not; what it has answered by then counts.
const GUARD: u32 = 3;
/// How soon a message may come back whose destination does not rest.
const LEAST_REST: Duration = Duration::from_millis(100);
/// How soon a message may come back whose dictionary could not be fetched.
const UNRESTORED_REST: Duration = Duration::from_secs(1);
/// How often what is confirmed is settled while the rest of its batch waits.
const SETTLE_EVERY: Duration = Duration::from_millis(100);

/// A batch of reserved messages.
pub(crate) struct Batch {
    pub(crate) lane_number: usize,
    pub(crate) lane: Arc<Lane>,
    pub(crate) messages: Vec<Reservation>,
    /// Of their payloads.
    pub(crate) bytes: usize,
    pub(crate) routes: TopicRoutes,
    pub(crate) probe: bool,
    /// Redis's clock when they were reserved, and the clock here.
    pub(crate) reserved: (UnixMicros, Instant),
    /// How many messages the lane had delivered by then.
    pub(crate) delivered_before: u64,
}

/// What became of a batch.
pub(crate) struct Report {
    /// What is on its way no more, of what was not told before.
    pub(crate) freed: Freed,
    /// What it came to; `None`: nothing was sent.
    pub(crate) measure: Option<Measure>,
}

/// The parcels to be delivered, and the places of their messages.
#[derive(Default)]
struct Load {
    parcels: Vec<Parcel>,
    places: Vec<usize>,
    /// Destinations by message that a probe goes to.
    probed: BTreeSet<String>,
}

/// What is known of a load.
struct Known {
    started: Instant,
    outcomes: Vec<Option<Outcome>>,
    /// Parcels that have been settled, or are being.
    settled: Vec<bool>,
    measure: Measure,
}

// === impl Batch ===

impl Batch {
    pub(crate) async fn run(mut self, means: Means) -> Report {
        let count = self.messages.len();
        means.stats.in_flight(&self.lane.to.name, count as i64);
        let mut verdicts: Vec<Option<Verdict>> = vec![None; count];
        let load = self.load(&mut verdicts);
        let mut known = Known::new(load.parcels.len(), self.delivered_before);
        if !load.parcels.is_empty() {
            self.deliver(&means, &load, &mut known).await;
        }
        let early = known.settled.iter().filter(|settled| **settled).count();
        let measure = known.measure();
        self.judge(&load, known, &mut verdicts);
        let settler = Settler::new(&means);
        let settled = std::mem::take(&mut self.messages).into_iter().zip(verdicts);
        let settled = settled.filter_map(|(message, verdict)| Some((message.receipt, verdict?)));
        settler.settle(settled).await;
        let left = count - early;
        means.stats.in_flight(&self.lane.to.name, -(left as i64));
        // What was settled early has been counted.
        let delivered = measure.map_or(0, |measure| measure.delivered - early);
        Report {
            freed: Freed { lane_number: self.lane_number, count: left, bytes: self.bytes, delivered },
            measure,
        }
    }

    /// Encodes, and leaves out what can never be delivered and what would go to a destination that rests.
    fn load(&mut self, verdicts: &mut [Option<Verdict>]) -> Load {
        let now = Instant::now();
        let mut load = Load::default();
        load.parcels.reserve_exact(self.messages.len());
        load.places.reserve_exact(self.messages.len());
        let mut messages = std::mem::take(&mut self.messages);
        for (i, (message, verdict)) in messages.iter_mut().zip(verdicts).enumerate() {
            if let Some(why) = message.unrestored.take() {
                *verdict = Some(put_back(why));
                continue;
            }
            let route = &self.routes[&message.topic];
            match encode(route, self.lane.to.encoding, self.lane.to.event_prefix, message) {
                Err(reason) => *verdict = Some(Verdict::Bury(reason)),
                Ok(parcel) => match self.refusal(&parcel.destination, now, &mut load.probed) {
                    Some(rest) => *verdict = Some(Verdict::rest(rest, "the destination rests")),
                    None => {
                        load.parcels.push(parcel);
                        load.places.push(i);
                    }
                },
            }
        }
        self.messages = messages;
        load
    }

    /// How long a message has to wait whose destination depends on it and rests. Lets one through as a probe.
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

    /// Delivers under leases that are extended meanwhile, and settles what is confirmed meanwhile. Every parcel has its
    /// outcome then, unless the drain would not wait any longer.
    async fn deliver(&self, means: &Means, load: &Load, known: &mut Known) {
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
        let (mut extend, mut settle) = (every(means.lease / 3), every(SETTLE_EVERY));
        let mut settling = FuturesUnordered::new();
        loop {
            tokio::select! {
                biased;
                () = &mut work => break,
                () = means.give_up.requested() => break,
                _ = extend.tick() => self.extend(means, load, known).await,
                _ = settle.tick() => {
                    self.note(means, load, known, &outcomes);
                    let receipts = self.confirmed(load, known);
                    if !receipts.is_empty() {
                        settling.push(self.settle_early(means, receipts));
                    }
                }
                Some(()) = settling.next(), if !settling.is_empty() => {}
            }
        }
        self.note(means, load, known, &outcomes);
        while settling.next().await.is_some() {}
        means.stats.delivery(&to.name, known.started.elapsed());
        means.stats.count(&to.name, known.outcomes.iter().flatten());
    }

    /// Notes the outcomes that have come.
    fn note(&self, means: &Means, load: &Load, known: &mut Known, outcomes: &Outcomes) {
        let now = Instant::now();
        let (redis_clock, clock) = self.reserved;
        let confirmed =
            UnixMicros(redis_clock.0 + u64::try_from((now - clock).as_micros()).unwrap_or(u64::MAX));
        for (k, outcome) in outcomes.fresh() {
            if outcome == Outcome::Delivered {
                means.stats.late(confirmed.since(load.parcels[k].about.due));
                known.measure.delivered += 1;
                known.measure.took = Some(now - known.started);
            }
            known.outcomes[k] = Some(outcome);
        }
    }

    /// The receipts of what is confirmed and not settled: it is now.
    fn confirmed(&self, load: &Load, known: &mut Known) -> Vec<Receipt> {
        let Known { outcomes, settled, .. } = known;
        let each = outcomes.iter().zip(settled).zip(&load.places);
        let open = each.filter(|((outcome, settled), _)| **outcome == Some(Outcome::Delivered) && !**settled);
        let take = |((_, settled), &i): ((_, &mut bool), &usize)| {
            *settled = true;
            self.messages[i].receipt.clone()
        };
        open.map(take).collect()
    }

    async fn settle_early(&self, means: &Means, receipts: Vec<Receipt>) {
        let count = receipts.len();
        Settler::new(means).settle(receipts.into_iter().map(|receipt| (receipt, Verdict::Ack))).await;
        means.stats.in_flight(&self.lane.to.name, -(count as i64));
        // Their bodies are kept as long as the batch is.
        means.free(Freed { lane_number: self.lane_number, count, bytes: 0, delivered: count });
    }

    /// Gives the leases of what is not settled more time.
    async fn extend(&self, means: &Means, load: &Load, known: &Known) {
        let open = load.places.iter().zip(&known.settled).filter(|(_, settled)| !**settled);
        let receipts: Vec<Receipt> = open.map(|(&i, _)| self.messages[i].receipt.clone()).collect();
        let settled = means.client.extend(&receipts, Some(means.lease)).await;
        means.stats.settled(settled.iter().flatten());
    }

    /// Turns outcomes into verdicts, destination by destination. What has none is given back.
    fn judge(&self, load: &Load, known: Known, verdicts: &mut [Option<Verdict>]) {
        let Known { outcomes, settled, .. } = known;
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
        let judgements = self.lane.judge(&batch, self.probe, Instant::now());
        for ((destination, which), mut judgement) in destinations.into_iter().zip(judgements) {
            let probe = self.probe || load.probed.contains(destination);
            for k in which.into_iter().filter(|&k| !settled[k]) {
                let outcome = outcomes[k].as_ref().expect("only those that have one were judged");
                let again = load.parcels[k].about.delivery > u32::from(load.parcels[k].about.attempt);
                verdicts[load.places[k]] = Some(verdict(outcome, &mut judgement, probe, again));
            }
        }
        for (k, &i) in load.places.iter().enumerate() {
            if outcomes[k].is_none() {
                verdicts[i] = Some(Verdict::rest(Duration::ZERO, "given back while draining"));
            }
        }
        self.log_buried(load, verdicts);
    }

    fn log_buried(&self, load: &Load, verdicts: &[Option<Verdict>]) {
        let mut buried =
            load.parcels.iter().zip(&load.places).filter_map(|(parcel, &i)| match &verdicts[i] {
                Some(Verdict::Bury(reason)) => Some((parcel, reason)),
                _ => None,
            });
        if let Some((parcel, reason)) = buried.next() {
            tracing::error!(
                sink = self.lane.to.name,
                destination = parcel.destination,
                topic = parcel.about.topic,
                id = parcel.about.id,
                more = buried.count(),
                reason,
                "buried: the destination will never take it"
            );
        }
    }
}

/// What is to become of a message; `again`: it has failed before without paying.
fn verdict(outcome: &Outcome, judgement: &mut Judgement, probe: bool, again: bool) -> Verdict {
    let rest = judgement.rest;
    match outcome {
        Outcome::Delivered => Verdict::Ack,
        Outcome::Rejected { reason } if judgement.burials > 0 => {
            judgement.burials -= 1;
            Verdict::Bury(reason.clone())
        }
        // The brake: only a probe pays, by its own back-off, so that another message is the next.
        Outcome::Rejected { reason } => Verdict::Release {
            delay: (!probe).then(|| rest.unwrap_or_default().max(LEAST_REST)),
            keep_attempt: !probe,
            reason: reason.clone(),
        },
        Outcome::Unavailable { reason, retry_after, blame } => {
            let burns = judgement.evidence.burns(*blame, probe, rest.is_some(), again);
            let rest = match blame {
                Blame::Nobody => Duration::ZERO,
                _ => rest.unwrap_or_default().max(LEAST_REST),
            };
            // A probe's fault is not proven: it comes back by its own back-off like any other.
            let delay = if burns { *retry_after } else { Some(rest) };
            Verdict::Release { delay, keep_attempt: !burns, reason: reason.clone() }
        }
    }
}

/// What is to become of a message whose payload is still compressed.
fn put_back(why: Unrestored) -> Verdict {
    match why {
        Unrestored::Never(error) => Verdict::Bury(error.to_string()),
        Unrestored::NotNow(reason) => Verdict::rest(UNRESTORED_REST, &reason),
    }
}

/// Ticks for the first time after this long.
fn every(period: Duration) -> Interval {
    let mut every = interval_at(tokio::time::Instant::now() + period, period);
    every.set_missed_tick_behavior(MissedTickBehavior::Delay);
    every
}

// === impl Known ===

impl Known {
    fn new(count: usize, before: u64) -> Self {
        Self {
            started: Instant::now(),
            outcomes: vec![None; count],
            settled: vec![false; count],
            measure: Measure { before, ..Measure::default() },
        }
    }

    /// What it came to; `None`: nothing was sent.
    fn measure(&self) -> Option<Measure> {
        let lost = self.outcomes.len() - self.measure.delivered;
        (!self.outcomes.is_empty()).then_some(Measure { lost, ..self.measure })
    }
}
