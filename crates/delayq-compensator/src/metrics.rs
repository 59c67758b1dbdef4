//! The metrics of the compensator.

use crate::resubmit::Report;
use delayq_service::Metrics;
use delayq_spool::SpoolStats;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Unit;
use std::sync::atomic::{AtomicU64, Ordering};

#[derive(Clone, Debug)]
pub(crate) struct CompensatorMetrics {
    settled: Family<OfOutcome, Counter>,
    held: Counter,
    spooled: Counter,
    records: Family<OfState, Gauge>,
    bytes: Gauge,
    oldest: Gauge<f64, AtomicU64>,
}

/// What became of a record.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct OfOutcome {
    outcome: &'static str,
}

/// Where a record stands.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct OfState {
    state: &'static str,
}

// === impl CompensatorMetrics ===

impl CompensatorMetrics {
    pub(crate) fn register(metrics: &Metrics) -> Self {
        let registered = Self {
            settled: metrics.register(
                "spool_settled",
                "Records that this process carried out (resubmitted) or set aside (rejected)",
                Family::default(),
            ),
            held: metrics.register(
                "spool_held",
                "Steps that ended because Redis could not be used, or the disk was full",
                Counter::default(),
            ),
            spooled: metrics.register(
                "spool_spooled",
                "Records ever appended to the spool",
                Counter::default(),
            ),
            records: metrics.register(
                "spool_records",
                "Records in the spool: waiting to be resubmitted, or rejected and set aside",
                Family::default(),
            ),
            bytes: metrics.register_with_unit(
                "spool_size",
                "What the spool takes",
                Unit::Bytes,
                Gauge::default(),
            ),
            oldest: metrics.register_with_unit(
                "spool_oldest_age",
                "How long the oldest record has waited",
                Unit::Seconds,
                Gauge::default(),
            ),
        };
        registered.count(&Report::default());
        registered
    }

    /// Counts what a step did.
    pub(crate) fn count(&self, report: &Report) {
        let settled = [("resubmitted", report.resubmitted), ("rejected", report.rejected)];
        for (outcome, records) in settled {
            self.settled.get_or_create(&OfOutcome { outcome }).inc_by(records);
        }
        self.held.inc_by(u64::from(report.held.is_some()));
    }

    pub(crate) fn show(&self, stats: &SpoolStats) {
        let number = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
        for (state, records) in [("waiting", stats.waiting), ("rejected", stats.rejected)] {
            self.records.get_or_create(&OfState { state }).set(number(records));
        }
        // The spool counts it, over all lives of this process.
        self.spooled.inner().store(stats.spooled, Ordering::Relaxed);
        self.bytes.set(number(stats.bytes));
        self.oldest.set(stats.oldest_age().as_secs_f64());
    }
}
