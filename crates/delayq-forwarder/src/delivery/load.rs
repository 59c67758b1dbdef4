//! The load of a delivery: which messages of a batch are sent, and what is decided of the others without a delivery.

use super::batch::LaneBatch;
use crate::circuit::Pass;
use crate::encode::encode;
use crate::routes::Route;
use crate::settle::Verdict;
use crate::traced::{Delivery, Traced};
use crate::{About, Parcel};
use delayq::protocol::{Receipt, Reservation, Unrestored};
use delayq_service::Traces;
use delayq_service::brokers::Outcome;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Delay before a message returns whose dictionary could not be fetched.
const UNRESTORED_REST: Duration = Duration::from_secs(1);

pub(super) struct Item {
    pub(super) receipt: Receipt,
    pub(super) route: Arc<Route>,
    /// If recorded.
    pub(super) traced: Option<Traced>,
    pub(super) outcome: Option<Outcome>,
    /// Or being settled.
    pub(super) settled: bool,
}

pub(super) struct Unencoded {
    pub(super) receipt: Receipt,
    pub(super) about: About,
    pub(super) outcome: Outcome,
}

#[derive(Default)]
pub(super) struct Load {
    pub(super) parcels: Vec<Parcel>,
    pub(super) unencoded: Vec<Unencoded>,
    /// Messages that return to Redis, or are buried, without a delivery.
    pub(super) undelivered: Vec<(Receipt, Verdict)>,
    /// Destinations that one parcel probes.
    pub(super) probed: BTreeSet<String>,
}

// === impl Load ===

impl Load {
    /// The second value has an item for each parcel.
    pub(super) fn new(batch: &LaneBatch, messages: Vec<Reservation>, traces: &Traces) -> (Self, Vec<Item>) {
        let mut load = Self { parcels: Vec::with_capacity(messages.len()), ..Self::default() };
        let now = Instant::now();
        let items =
            messages.into_iter().filter_map(|message| load.add(batch, message, traces, now)).collect();
        (load, items)
    }

    fn add(
        &mut self,
        batch: &LaneBatch,
        mut message: Reservation,
        traces: &Traces,
        now: Instant,
    ) -> Option<Item> {
        if let Some(why) = message.unrestored.take() {
            self.undelivered.push((message.receipt, put_back(why)));
            return None;
        }
        let traced = Traced::of(traces, &mut message);
        let (route, to) = (batch.routes[&message.topic].clone(), &batch.lane.to);
        let parcel = match encode(&route, to.encoding, to.event_prefix, &mut message) {
            Ok(parcel) => parcel,
            Err(reason) => {
                self.unencoded.push(batch.unencoded(message, reason, traced, traces));
                return None;
            }
        };
        if let Some(rest) = batch.refusal(&parcel.destination, now, &mut self.probed) {
            self.undelivered.push((message.receipt, Verdict::rest(rest, "the destination rests")));
            return None;
        }
        if let Some(traced) = traced {
            traced.reserved(traces, &message, batch.reserved.0);
        }
        self.parcels.push(parcel);
        Some(Item { receipt: message.receipt, route, traced, outcome: None, settled: false })
    }
}

// === impl LaneBatch ===

impl LaneBatch {
    /// As of a delivery that failed at once.
    fn unencoded(
        &self,
        message: Reservation,
        reason: String,
        traced: Option<Traced>,
        traces: &Traces,
    ) -> Unencoded {
        let (about, outcome) = (About::of(&message), Outcome::rejected(reason));
        if let Some(traced) = traced {
            let (reserved, sink) = (self.reserved.0, &self.lane.to.name);
            traced.reserved(traces, &message, reserved);
            let delivery =
                Delivery { about: &about, destination: None, sink, start: reserved, end: reserved };
            traced.delivered(traces, &delivery, &outcome);
        }
        Unencoded { receipt: message.receipt, about, outcome }
    }

    /// Admits one message as a probe.
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
}

fn put_back(why: Unrestored) -> Verdict {
    match why {
        Unrestored::Never(error) => Verdict::Bury(error.to_string()),
        Unrestored::NotNow(reason) => Verdict::rest(UNRESTORED_REST, &reason),
    }
}
