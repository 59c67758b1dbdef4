//! The metrics of the spool.

use crate::resubmit::Report;
use crate::source_metrics::{SourceMetrics, SourcesMetrics};
use delayq_spool::SpoolStats;
use prometheus_client::metrics::counter::Counter;
use std::sync::atomic::Ordering;

#[derive(Clone, Debug)]
pub(crate) struct SpoolMetrics {
    source: SourceMetrics,
    spooled: Counter,
}

// === impl SpoolMetrics ===

impl SpoolMetrics {
    pub(crate) fn register(metrics: &SourcesMetrics) -> Self {
        let help = "Records ever appended to the spool";
        let spooled = metrics.own.register("spool_spooled", help, Counter::default());
        Self { source: metrics.of("spool"), spooled }
    }

    /// Counts what a step did.
    pub(crate) fn count(&self, report: &Report) {
        for (outcome, records) in [("done", report.resubmitted), ("rejected", report.rejected)] {
            self.source.settled(outcome).inc_by(records);
        }
        if report.held.is_some() {
            self.source.hold();
        }
    }

    pub(crate) fn show(&self, stats: &SpoolStats) {
        self.source.records("waiting", stats.waiting);
        self.source.records("rejected", stats.rejected);
        // The spool counts it, over all lives of this process.
        self.spooled.inner().store(stats.spooled, Ordering::Relaxed);
        self.source.size(stats.bytes);
        self.source.oldest(stats.oldest_age());
    }
}
