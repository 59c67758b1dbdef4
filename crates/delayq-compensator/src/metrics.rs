//! The metrics of the compensator.

use delayq_service::Metrics;
use delayq_spool::SpoolStats;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Unit;
use std::sync::atomic::AtomicU64;

#[derive(Clone, Debug)]
pub(crate) struct CompensatorMetrics {
    pub(crate) resubmitted: Counter,
    pub(crate) rejected: Counter,
    pub(crate) held: Counter,
    spooled: Gauge,
    waiting: Gauge,
    aside: Gauge,
    bytes: Gauge,
    oldest: Gauge<f64, AtomicU64>,
}

// === impl CompensatorMetrics ===

impl CompensatorMetrics {
    pub(crate) fn register(metrics: &Metrics) -> Self {
        let counter = |name: &str, help: &str| metrics.register(name, help, Counter::default());
        let gauge = |name: &str, help: &str| metrics.register(name, help, Gauge::default());
        Self {
            resubmitted: counter("spool_resubmitted", "Records that this process carried out"),
            rejected: counter("spool_rejected", "Records that this process set aside"),
            held: counter(
                "spool_held",
                "Steps that ended because Redis could not be used, or the disk was full",
            ),
            spooled: gauge("spool_spooled", "Records ever appended to the spool"),
            waiting: gauge("spool_waiting", "Records that wait to be resubmitted"),
            aside: gauge("spool_rejected_kept", "Records that are set aside"),
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
        }
    }

    pub(crate) fn show(&self, stats: &SpoolStats) {
        let number = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
        self.spooled.set(number(stats.spooled));
        self.waiting.set(number(stats.waiting));
        self.aside.set(number(stats.rejected));
        self.bytes.set(number(stats.bytes));
        self.oldest.set(stats.oldest_age().as_secs_f64());
    }
}
