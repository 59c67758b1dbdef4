//! Number of spans by outcome.

use crate::Metrics;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;

pub(super) const EXPORTED: &str = "exported";
pub(super) const FAILED: &str = "failed";
pub(super) const DROPPED: &str = "dropped";

/// Number of spans by outcome.
#[derive(Clone, Debug)]
pub(super) struct Counts(Family<OfOutcome, Counter>);

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfOutcome {
    outcome: &'static str,
}

// === impl Counts ===

impl Counts {
    pub(super) fn new(metrics: &Metrics) -> Self {
        let spans: Family<OfOutcome, Counter> = metrics.register(
            "traces_spans",
            "Spans by outcome: exported, failed (the collector did not accept them) or dropped (the queue was full)",
            Family::default(),
        );
        let counts = Self(spans);
        [EXPORTED, FAILED, DROPPED].into_iter().for_each(|outcome| counts.add(outcome, 0));
        counts
    }

    pub(super) fn add(&self, outcome: &'static str, spans: u64) {
        self.0.get_or_create(&OfOutcome { outcome }).inc_by(spans);
    }
}
