//! The metrics that all sources of recorded writes have in common, by the name of the source.

use crate::report::Report;
use crate::source::SourceState;
use delayq_service::Metrics;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Unit;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

/// The metrics of all sources of this process. Clones share the metrics.
#[derive(Clone, Debug)]
pub struct SourcesMetrics {
    /// The registry for metrics of a single kind of source.
    pub(crate) own: Metrics,
    /// Records ever appended to the spool.
    pub(crate) spooled: Counter,
    settled: Family<OfOutcome, Counter>,
    held: Family<OfSource, Counter>,
    records: Family<OfState, Gauge>,
    oldest: Family<OfSource, Gauge<f64, AtomicU64>>,
    size: Family<OfSource, Gauge>,
}

/// The metrics of one source.
#[derive(Clone, Debug)]
pub(crate) struct SourceMetrics {
    of: SourcesMetrics,
    source: String,
    held: Counter,
    oldest: Gauge<f64, AtomicU64>,
}

/// The outcome of a record.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct OfOutcome {
    source: String,
    outcome: &'static str,
}

/// The state of a record.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct OfState {
    source: String,
    state: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct OfSource {
    source: String,
}

// === impl SourcesMetrics ===

impl SourcesMetrics {
    /// Registers them; once in a process.
    pub fn register(metrics: &Metrics) -> Self {
        Self {
            own: metrics.clone(),
            spooled: metrics.register(
                "spool_spooled",
                "Records ever appended to the spool",
                Counter::default(),
            ),
            settled: metrics.register(
                "source_settled",
                "Recorded writes that this process carried out (done), set aside or sent to the dead destination (rejected, or unreadable ones), or let rest (resting)",
                Family::default(),
            ),
            held: metrics.register(
                "source_held",
                "Steps that ended because Redis or the source could not be used, or the disk was full",
                Family::default(),
            ),
            records: metrics.register(
                "source_records",
                "Recorded writes by state: waiting (in the spool; of an intake, taken from the broker and waiting for another try), resting or rejected",
                Family::default(),
            ),
            oldest: metrics.register_with_unit(
                "source_oldest_age",
                "How long the oldest recorded write has waited; of an intake, the oldest one that was taken from the broker",
                Unit::Seconds,
                Family::default(),
            ),
            size: metrics.register_with_unit(
                "source_size",
                "What the spool or the outbox takes, settled rows that are still to be truncated included",
                Unit::Bytes,
                Family::default(),
            ),
        }
    }

    /// The metrics of the source of this name: `spool`, `outbox`, or an intake such as `intake.orders`.
    pub(crate) fn of(&self, source: impl Into<String>) -> SourceMetrics {
        let source = source.into();
        let of = OfSource { source: source.clone() };
        let (held, oldest) = (self.held.get_or_create_owned(&of), self.oldest.get_or_create_owned(&of));
        let metrics = SourceMetrics { of: self.clone(), source, held, oldest };
        for outcome in ["done", "rejected", "resting"] {
            metrics.settled(outcome);
        }
        metrics
    }
}

// === impl SourceMetrics ===

impl SourceMetrics {
    /// The name of the source.
    pub(crate) fn name(&self) -> &str {
        &self.source
    }

    /// Number of records with this outcome.
    pub(crate) fn settled(&self, outcome: &'static str) -> Counter {
        self.of.settled.get_or_create_owned(&OfOutcome { source: self.source.clone(), outcome })
    }

    /// Counts the outcomes of a step, except rejections: the source counts those when noted.
    pub(crate) fn count(&self, report: &Report) {
        for (outcome, records) in [("done", report.done), ("resting", report.resting)] {
            self.settled(outcome).inc_by(records);
        }
    }

    pub(crate) fn show(&self, seen: &SourceState) {
        let SourceState { waiting, rejected, resting, oldest, bytes, .. } = *seen;
        for (state, records) in [("waiting", waiting), ("rejected", rejected), ("resting", Some(resting))] {
            if let Some(records) = records {
                self.records(state, records);
            }
        }
        self.oldest(oldest);
        if let Some(bytes) = bytes {
            self.size(bytes);
        }
    }

    /// Counts a step that could not be carried out.
    pub(crate) fn hold(&self) {
        self.held.inc();
    }

    /// So many records are in this state.
    pub(crate) fn records(&self, state: &'static str, records: u64) {
        let of = OfState { source: self.source.clone(), state };
        self.of.records.get_or_create(&of).set(number(records));
    }

    pub(crate) fn oldest(&self, age: Duration) {
        self.oldest.set(age.as_secs_f64());
    }

    pub(crate) fn size(&self, bytes: u64) {
        self.of.size.get_or_create(&OfSource { source: self.source.clone() }).set(number(bytes));
    }
}

fn number(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}
