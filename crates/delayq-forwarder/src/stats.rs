//! The forwarder's metrics.

use crate::config::RouteConfig;
use crate::routes::Route;
use delayq::Settled;
use delayq_service::brokers::Outcome;
use delayq_service::metrics::LATENESS_BUCKETS;
use delayq_service::{Metrics, Readiness};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::exemplar::HistogramWithExemplars;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Unit;
use std::sync::Arc;
use std::time::Duration;

const DELIVERY_BUCKETS: [f64; 14] =
    [0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0];

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfSink {
    sink: String,
}

/// By the route's pattern of topics.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfRoute {
    route: String,
    sink: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfOutcome {
    sink: String,
    outcome: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfDestination {
    sink: String,
    destination: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfTrace {
    trace_id: String,
}

/// Each bucket names a recorded trace.
type Traced = HistogramWithExemplars<OfTrace>;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfWord {
    word: &'static str,
}

/// The handles of all metrics.
#[derive(Clone, Debug)]
pub struct Stats {
    outcomes: Family<OfOutcome, Counter>,
    settled: Family<OfWord, Counter>,
    in_flight: Family<OfSink, Gauge>,
    circuit: Family<OfDestination, Gauge>,
    braked: Family<OfDestination, Gauge>,
    /// Times that the brake opened a circuit.
    pub(crate) brakes: Counter,
    delivery: Family<OfSink, Histogram, fn() -> Histogram>,
    lateness: Family<OfRoute, Traced, fn() -> Traced>,
    /// Topics without a route.
    pub unrouted_topics: Gauge,
    /// Ready messages of those topics.
    pub unrouted_messages: Gauge,
    /// Shards that this forwarder reserves from.
    pub shards: Gauge,
    /// 1 while ready messages do not move.
    pub(crate) stalled: Gauge,
    /// Calls of `reserve`.
    pub reserves: Counter,
    /// Calls of `reserve` without an answer.
    pub reserve_errors: Counter,
    readiness: Readiness,
}

pub(crate) struct Late {
    pub(crate) route: Arc<Route>,
    pub(crate) after: Duration,
    pub(crate) trace: Option<String>,
}

fn delivery_histogram() -> Histogram {
    Histogram::new(DELIVERY_BUCKETS)
}

fn lateness_histogram() -> Traced {
    Traced::new(LATENESS_BUCKETS.into_iter())
}

// === impl Stats ===

impl Stats {
    #[must_use]
    /// Registers all metrics.
    ///
    /// # Panics
    /// If this registry has a forwarder already.
    pub fn new(metrics: &Metrics, readiness: Readiness) -> Self {
        Self {
            readiness,
            outcomes: metrics.register(
                "forwarder_outcomes",
                "Messages by sink and outcome of the delivery",
                Family::default(),
            ),
            settled: metrics.register("forwarder_settled", "Settled leases by outcome", settled_from_zero()),
            in_flight: metrics.register(
                "forwarder_in_flight",
                "Messages that are reserved and not yet settled",
                Family::default(),
            ),
            circuit: metrics.register(
                "forwarder_circuit",
                "Circuit of a destination: 0 closed, 1 half open, 2 open",
                Family::default(),
            ),
            braked: metrics.register(
                "forwarder_braked",
                "1 while a destination rests after consecutive rejections",
                Family::default(),
            ),
            brakes: metrics.register(
                "forwarder_brakes",
                "Times that a destination was put to rest after consecutive rejections",
                Counter::default(),
            ),
            delivery: metrics.register_with_unit(
                "forwarder_delivery",
                "Duration of a sink call",
                Unit::Seconds,
                Family::new_with_constructor(delivery_histogram as fn() -> Histogram),
            ),
            lateness: metrics.register_with_unit(
                "forwarder_lateness",
                "Time from a message's due time to the confirm of the destination, on Redis's clock",
                Unit::Seconds,
                Family::new_with_constructor(lateness_histogram as fn() -> Traced),
            ),
            unrouted_topics: metrics.register(
                "forwarder_unrouted_topics",
                "Topics without a route; their messages wait",
                Gauge::default(),
            ),
            unrouted_messages: metrics.register(
                "forwarder_unrouted_messages",
                "Ready messages of topics without a route",
                Gauge::default(),
            ),
            shards: metrics.register(
                "forwarder_shards",
                "Shards that this forwarder reserves messages from",
                Gauge::default(),
            ),
            stalled: metrics.register(
                "forwarder_stalled",
                "1 while ready messages do not move, and no destination, pause or rate is why",
                Gauge::default(),
            ),
            reserves: metrics.register(
                "forwarder_reserves",
                "Shards that were asked for messages",
                Counter::default(),
            ),
            reserve_errors: metrics.register(
                "forwarder_reserve_errors",
                "Calls for messages that a shard did not answer",
                Counter::default(),
            ),
        }
    }

    pub(crate) fn count<'o>(&self, sink: &str, outcomes: impl Iterator<Item = &'o Outcome>) {
        for (outcome, count) in tally(outcomes.map(Outcome::word)) {
            let of = OfOutcome { sink: sink.to_owned(), outcome };
            self.outcomes.get_or_create(&of).inc_by(count);
        }
    }

    pub(crate) fn settled<'a>(&self, settled: impl IntoIterator<Item = &'a Settled>) {
        for (word, count) in tally(settled.into_iter().map(settled_word)) {
            self.settled.get_or_create(&OfWord { word }).inc_by(count);
        }
    }

    pub(crate) fn in_flight(&self, sink: &str, change: i64) {
        self.in_flight.get_or_create(&OfSink { sink: sink.to_owned() }).inc_by(change);
    }

    pub(crate) fn circuit(&self, sink: &str, destination: &str, number: i64, braked: bool) {
        let of = OfDestination { sink: sink.to_owned(), destination: destination.to_owned() };
        self.circuit.get_or_create(&of).set(number);
        self.braked.get_or_create(&of).set(i64::from(braked));
    }

    /// The last error of a destination, in its own words; `None`: it accepts messages.
    pub(crate) fn refusal(&self, sink: &str, destination: &str, reason: Option<&str>) {
        self.readiness.fails(format!("{sink} {destination}"), reason);
    }

    pub(crate) fn delivery(&self, sink: &str, took: Duration) {
        self.delivery.get_or_create(&OfSink { sink: sink.to_owned() }).observe(took.as_secs_f64());
    }

    /// Shows the lateness series of a route from the start: Prometheus sees no rate in a series that begins with a
    /// delivery.
    pub(crate) fn expect(&self, route: &Route) {
        drop(self.lateness_of(route));
    }

    pub(crate) fn late(&self, late: Vec<Late>) {
        let mut current: Option<(Arc<Route>, Traced)> = None;
        for Late { route, after, trace } in late {
            // Most messages of a batch share a route.
            let known = current.take().filter(|(of, _)| Arc::ptr_eq(&of.config, &route.config));
            let (_, lateness) = current.insert(known.unwrap_or_else(|| {
                let lateness = self.lateness_of(&route);
                (route, lateness)
            }));
            let of_trace = trace.map(|trace_id| OfTrace { trace_id });
            lateness.observe(after.as_secs_f64(), of_trace, None);
        }
    }

    fn lateness_of(&self, route: &Route) -> Traced {
        let RouteConfig { topic, sink, .. } = &*route.config;
        let of = OfRoute { route: topic.to_string(), sink: sink.clone() };
        self.lateness.get_or_create_owned(&of)
    }
}

fn tally(words: impl Iterator<Item = &'static str>) -> Vec<(&'static str, u64)> {
    let mut counts: Vec<(&'static str, u64)> = Vec::new();
    for word in words {
        match counts.iter_mut().find(|(known, _)| *known == word) {
            Some((_, count)) => *count += 1,
            None => counts.push((word, 1)),
        }
    }
    counts
}

/// Burials start at 0: Prometheus sees no increase in a series that begins with a burial.
fn settled_from_zero() -> Family<OfWord, Counter> {
    let settled = Family::default();
    drop(settled.get_or_create(&OfWord { word: settled_word(&Settled::Buried) }));
    settled
}

const fn settled_word(settled: &Settled) -> &'static str {
    match settled {
        Settled::Delivered => "delivered",
        Settled::Delayed(_) => "delayed",
        Settled::Ready => "ready",
        Settled::Buried => "buried",
        Settled::Cancelled => "cancelled",
        Settled::MessageExpired => "expired",
        Settled::Extended(_) | Settled::ExtendedDoomed(_) => "extended",
        Settled::LeaseLost => "lease_lost",
        Settled::Failed(_) => "failed",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_words_are_counted_together() {
        assert_eq!(tally(["a", "b", "a"].into_iter()), [("a", 2), ("b", 1)]);
        assert_eq!(tally(std::iter::empty()), []);
    }
}
