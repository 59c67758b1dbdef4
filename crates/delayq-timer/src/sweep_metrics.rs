//! The metrics of sweeps.

use crate::metrics::zeroed;
use delayq::admin::Sweep;
use delayq_service::Metrics;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Unit;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

#[derive(Clone, Debug)]
pub(crate) struct SweepMetrics {
    pub(crate) looked_at: Counter,
    pub(crate) found: Family<OfKind, Counter>,
    pub(crate) mended: Family<OfKind, Counter>,
    pub(crate) outlived: Counter,
    sweeps: Family<OfOutcome, Counter>,
    pub(crate) seconds: Gauge<f64, AtomicU64>,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(crate) struct OfKind {
    pub(crate) kind: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct OfOutcome {
    outcome: &'static str,
}

const FINISHED: &str = "finished";
const FAILED: &str = "failed";

// === impl SweepMetrics ===

impl SweepMetrics {
    pub(crate) fn register(metrics: &Metrics) -> Self {
        let counter = |name: &str, help: &str| metrics.register(name, help, Counter::default());
        let by_kind = |name: &str, help: &str| {
            metrics.register(name, help, zeroed(Sweep::KINDS.map(|kind| OfKind { kind })))
        };
        Self {
            looked_at: counter(
                "timer_sweep_looked_at",
                "Messages, markers and entries of indexes that sweeps looked at",
            ),
            found: by_kind("timer_sweep_found", "Faults that sweeps found, by kind"),
            mended: by_kind("timer_sweep_mended", "Faults that sweeps mended, by kind"),
            outlived: counter(
                "timer_sweep_outlived",
                "Dead letters that sweeps purged because their topic keeps them no longer",
            ),
            sweeps: metrics.register(
                "timer_sweeps",
                "Sweeps that came to their end, and that Redis cut off",
                zeroed([FINISHED, FAILED].map(|outcome| OfOutcome { outcome })),
            ),
            seconds: metrics.register_with_unit(
                "timer_sweep",
                "How long the last whole sweep took",
                Unit::Seconds,
                Gauge::default(),
            ),
        }
    }
    pub(crate) fn finished(&self, took: Duration) {
        self.sweeps.get_or_create(&OfOutcome { outcome: FINISHED }).inc();
        self.seconds.set(took.as_secs_f64());
    }

    pub(crate) fn failed(&self) {
        self.sweeps.get_or_create(&OfOutcome { outcome: FAILED }).inc();
    }
}
