//! The metrics of the intakes.

use crate::source_metrics::{SourceMetrics, SourcesMetrics};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;

/// The metrics of all intakes of this process.
#[derive(Clone, Debug)]
pub(crate) struct IntakesMetrics {
    sources: SourcesMetrics,
    lost: Family<OfIntake, Counter>,
    lag: Family<OfIntake, Gauge>,
    paused: Family<OfIntake, Gauge>,
    connected: Family<OfIntake, Gauge>,
}

/// The metrics of one intake.
#[derive(Clone, Debug)]
pub(crate) struct IntakeMetrics {
    pub(crate) source: SourceMetrics,
    pub(crate) rejected: Counter,
    pub(crate) unreadable: Counter,
    pub(crate) lost: Counter,
    lag: Gauge,
    paused: Gauge,
    connected: Gauge,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct OfIntake {
    intake: String,
}

// === impl IntakesMetrics ===

impl IntakesMetrics {
    pub(crate) fn register(sources: &SourcesMetrics) -> Self {
        let metrics = &sources.own;
        Self {
            sources: sources.clone(),
            lost: metrics.register(
                "intake_lost",
                "Records that the broker's retention dropped before they were read, at most",
                Family::default(),
            ),
            lag: metrics.register(
                "intake_lag_records",
                "Records in the broker that are not settled, as far as this process sees them",
                Family::default(),
            ),
            paused: metrics.register(
                "intake_paused",
                "1 while nothing is taken from the broker, because Redis or the dead destination cannot be used or too much rests",
                Family::default(),
            ),
            connected: metrics.register(
                "intake_connected",
                "1 while the broker is connected",
                Family::default(),
            ),
        }
    }

    /// The metrics of the intake of this name.
    pub(crate) fn of(&self, name: &str) -> IntakeMetrics {
        let (intake, source) =
            (OfIntake { intake: name.to_owned() }, self.sources.of(format!("intake.{name}")));
        IntakeMetrics {
            rejected: source.settled("rejected"),
            unreadable: source.settled("unreadable"),
            source,
            lost: self.lost.get_or_create_owned(&intake),
            lag: self.lag.get_or_create_owned(&intake),
            paused: self.paused.get_or_create_owned(&intake),
            connected: self.connected.get_or_create_owned(&intake),
        }
    }
}

// === impl IntakeMetrics ===

impl IntakeMetrics {
    pub(crate) fn lag(&self, lag: Option<u64>) {
        if let Some(lag) = lag {
            self.lag.set(i64::try_from(lag).unwrap_or(i64::MAX));
        }
    }

    pub(crate) fn paused(&self, is_paused: bool) {
        self.paused.set(i64::from(is_paused));
    }

    pub(crate) fn connected(&self, is_connected: bool) {
        self.connected.set(i64::from(is_connected));
    }
}
