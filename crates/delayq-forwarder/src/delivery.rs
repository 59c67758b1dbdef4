//! One batch of one lane: encode → deliver → settle.

use crate::{
    Blame, Outcome, Parcel,
    circuit::{Evidence, Pass},
    encode::encode,
    lane::Lane,
    lane_state::TopicRoutes,
    means::Means,
    settle::{Settler, Verdict},
};
use delayq_core::{Receipt, Reservation, UnixMicros};
use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::time::{MissedTickBehavior, interval_at, timeout};

/// A sink keeps its own time. This many times of it, the forwarder stops waiting for one that does not.
const GUARD: u32 = 10;

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
}

/// What became of a batch.
pub(crate) struct Report {
    pub(crate) lane_number: usize,
    pub(crate) count: usize,
    pub(crate) bytes: usize,
    /// How long its delivery took, where any of it was delivered.
    pub(crate) took: Option<Duration>,
}

/// The parcels to be delivered, and the places of their messages.
#[derive(Default)]
struct Load {
    parcels: Vec<Parcel>,
    places: Vec<usize>,
}

// === impl Batch ===

impl Batch {
    pub(crate) async fn run(mut self, means: Means) -> Report {
        let count = self.messages.len();
        let mut report = Report { lane_number: self.lane_number, count, bytes: self.bytes, took: None };
        means.stats.in_flight(&self.lane.to.name, count as i64);
        let mut verdicts: Vec<Option<Verdict>> = vec![None; count];
        let load = self.load(&mut verdicts);
        let started = Instant::now();
        let outcomes =
            if load.parcels.is_empty() { Some(Vec::new()) } else { self.deliver(&means, &load).await };
        match outcomes {
            Some(outcomes) => {
                report.took = outcomes.contains(&Outcome::Delivered).then(|| started.elapsed());
                self.judge(&means, &load, &outcomes, &mut verdicts);
            }
            None => self.given_up(&load, &mut verdicts),
        }
        let settler = Settler::new(&means);
        let settled =
            std::mem::take(&mut self.messages).into_iter().zip(verdicts).map(|(message, verdict)| {
                (message.receipt, verdict.expect("every message has been encoded, refused or judged"))
            });
        settler.settle(settled).await;
        means.stats.in_flight(&self.lane.to.name, -(count as i64));
        report
    }

    /// Encodes, and leaves out what can never be delivered and what would go to a destination that rests.
    fn load(&mut self, verdicts: &mut [Option<Verdict>]) -> Load {
        let now = Instant::now();
        let mut load = Load::default();
        load.parcels.reserve_exact(self.messages.len());
        load.places.reserve_exact(self.messages.len());
        let mut messages = std::mem::take(&mut self.messages);
        for (i, (message, verdict)) in messages.iter_mut().zip(verdicts).enumerate() {
            let route = &self.routes[&message.topic];
            match encode(route, self.lane.to.encoding, self.lane.to.event_prefix, message) {
                Err(reason) => *verdict = Some(Verdict::Bury(reason)),
                Ok(parcel) => match self.refusal(&parcel.destination, now) {
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
    fn refusal(&self, destination: &str, now: Instant) -> Option<Duration> {
        if self.lane.fixed.is_some() {
            return None;
        }
        match self.lane.pass_to(destination, now) {
            Pass::All => None,
            Pass::Probe => {
                self.lane.probing(destination);
                None
            }
            Pass::None(Some(until)) => Some(until.saturating_duration_since(now)),
            Pass::None(None) => Some(Duration::from_millis(100)),
        }
    }

    /// Delivers under leases that are extended meanwhile; `None`: the drain would not wait any longer.
    async fn deliver(&self, means: &Means, load: &Load) -> Option<Vec<Outcome>> {
        let to = &self.lane.to;
        let started = Instant::now();
        let work = async {
            if let Err(error) = self.lane.check().await {
                return vec![Outcome::down(error.to_string()); load.parcels.len()];
            }
            let guard = to.timeout * GUARD;
            timeout(guard, to.sink.deliver(&load.parcels)).await.unwrap_or_else(|_| {
                vec![Outcome::down(format!("the sink did not answer within {guard:?}")); load.parcels.len()]
            })
        };
        let mut work = std::pin::pin!(work);
        let every = means.lease / 3;
        let mut extend = interval_at(tokio::time::Instant::now() + every, every);
        extend.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let outcomes = loop {
            tokio::select! {
                biased;
                outcomes = &mut work => break outcomes,
                () = means.give_up.requested() => return None,
                _ = extend.tick() => self.extend(means).await,
            }
        };
        assert_eq!(outcomes.len(), load.parcels.len(), "the sink {} answers once for each parcel", to.name);
        means.stats.delivery(&to.name, started.elapsed());
        means.stats.count(&to.name, &outcomes);
        Some(outcomes)
    }

    /// Gives the leases of the batch more time.
    async fn extend(&self, means: &Means) {
        let receipts: Vec<Receipt> = self.messages.iter().map(|message| message.receipt.clone()).collect();
        let settled = means.client.extend(&receipts, Some(means.lease)).await;
        means.stats.settled(settled.iter().flatten());
    }

    /// Turns outcomes into verdicts, destination by destination.
    fn judge(&self, means: &Means, load: &Load, outcomes: &[Outcome], verdicts: &mut [Option<Verdict>]) {
        let now = Instant::now();
        let mut destinations: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for (k, parcel) in load.parcels.iter().enumerate() {
            destinations.entry(&parcel.destination).or_default().push(k);
        }
        for (destination, which) in destinations {
            let of_it: Vec<&Outcome> = which.iter().map(|&k| &outcomes[k]).collect();
            let (evidence, rest) = self.lane.judge(destination, &of_it, now);
            for k in which {
                verdicts[load.places[k]] = Some(self.verdict(&outcomes[k], evidence, rest));
            }
        }
        if self.probe && load.parcels.is_empty() {
            self.unprobe(now);
        }
        let (redis_clock, clock) = self.reserved;
        let confirmed =
            UnixMicros(redis_clock.0 + u64::try_from((now - clock).as_micros()).unwrap_or(u64::MAX));
        for (k, outcome) in outcomes.iter().enumerate() {
            if *outcome == Outcome::Delivered {
                means.stats.late(confirmed.since(load.parcels[k].about.due));
            }
        }
        self.log_rejected(load, outcomes);
    }

    fn verdict(&self, outcome: &Outcome, evidence: Evidence, rest: Option<Duration>) -> Verdict {
        match outcome {
            Outcome::Delivered => Verdict::Ack,
            Outcome::Rejected { reason } => Verdict::Bury(reason.clone()),
            Outcome::Unavailable { reason, retry_after, blame } => {
                if evidence.burns(*blame, self.probe, rest.is_some()) {
                    // A probe's fault is not proven: it comes back by its own back-off like any other.
                    Verdict::Release { delay: *retry_after, keep_attempt: false, reason: reason.clone() }
                } else {
                    let rest = rest.unwrap_or(Duration::from_millis(100));
                    Verdict::Release {
                        delay: Some(rest),
                        keep_attempt: *blame != Blame::Message,
                        reason: reason.clone(),
                    }
                }
            }
        }
    }

    fn given_up(&self, load: &Load, verdicts: &mut [Option<Verdict>]) {
        for &i in &load.places {
            verdicts[i] = Some(Verdict::rest(Duration::ZERO, "given back while draining"));
        }
        if self.probe {
            self.unprobe(Instant::now());
        }
    }

    fn unprobe(&self, now: Instant) {
        if let Some(destination) = &self.lane.fixed {
            self.lane.unprobed(destination, now);
        }
    }

    fn log_rejected(&self, load: &Load, outcomes: &[Outcome]) {
        let mut rejected = load.parcels.iter().zip(outcomes).filter_map(|(parcel, outcome)| match outcome {
            Outcome::Rejected { reason } => Some((parcel, reason)),
            _ => None,
        });
        if let Some((parcel, reason)) = rejected.next() {
            tracing::error!(
                sink = self.lane.to.name,
                destination = parcel.destination,
                topic = parcel.about.topic,
                id = parcel.about.id,
                more = rejected.count(),
                reason,
                "buried: the destination will never take it"
            );
        }
    }
}
