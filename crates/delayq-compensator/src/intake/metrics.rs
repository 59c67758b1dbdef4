//! The metrics of the intakes.

use delayq_service::Metrics;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Unit;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

/// The metrics of all intakes of this process.
#[derive(Clone, Debug)]
pub(crate) struct IntakesMetrics {
    settled: Family<OfOutcome, Counter>,
    held: Family<OfIntake, Counter>,
    lost: Family<OfIntake, Counter>,
    lag: Family<OfIntake, Gauge>,
    unsettled: Family<OfIntake, Gauge>,
    oldest: Family<OfIntake, Gauge<f64, AtomicU64>>,
    paused: Family<OfIntake, Gauge>,
    connected: Family<OfIntake, Gauge>,
}

/// The metrics of one intake.
#[derive(Clone, Debug)]
pub(crate) struct IntakeMetrics {
    pub(crate) done: Counter,
    pub(crate) rejected: Counter,
    pub(crate) unreadable: Counter,
    pub(crate) held: Counter,
    pub(crate) lost: Counter,
    lag: Gauge,
    unsettled: Gauge,
    oldest: Gauge<f64, AtomicU64>,
    paused: Gauge,
    connected: Gauge,
}

/// What became of a record.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct OfOutcome {
    intake: String,
    outcome: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct OfIntake {
    intake: String,
}

// === impl IntakesMetrics ===

impl IntakesMetrics {
    pub(crate) fn register(metrics: &Metrics) -> Self {
        Self {
            settled: metrics.register(
                "intake_settled",
                "Records that were carried out (done), or went to the dead destination (rejected by Redis, unreadable)",
                Family::default(),
            ),
            held: metrics.register(
                "intake_held",
                "Steps that ended because Redis or the dead destination could not be used",
                Family::default(),
            ),
            lost: metrics.register(
                "intake_lost",
                "Records that the broker's retention dropped before they were read",
                Family::default(),
            ),
            lag: metrics.register(
                "intake_lag_records",
                "Records in the broker that are not settled, as far as this process sees them",
                Family::default(),
            ),
            unsettled: metrics.register(
                "intake_unsettled_records",
                "Records that were taken from the broker and wait for another try",
                Family::default(),
            ),
            oldest: metrics.register_with_unit(
                "intake_oldest_age",
                "How long ago the oldest record that waits for another try was published",
                Unit::Seconds,
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
        let intake = OfIntake { intake: name.to_owned() };
        let settled = |outcome| {
            let of = OfOutcome { intake: name.to_owned(), outcome };
            self.settled.get_or_create_owned(&of)
        };
        IntakeMetrics {
            done: settled("done"),
            rejected: settled("rejected"),
            unreadable: settled("unreadable"),
            held: self.held.get_or_create_owned(&intake),
            lost: self.lost.get_or_create_owned(&intake),
            lag: self.lag.get_or_create_owned(&intake),
            unsettled: self.unsettled.get_or_create_owned(&intake),
            oldest: self.oldest.get_or_create_owned(&intake),
            paused: self.paused.get_or_create_owned(&intake),
            connected: self.connected.get_or_create_owned(&intake),
        }
    }
}

// === impl IntakeMetrics ===

impl IntakeMetrics {
    /// How much waits for another try, and for how long the oldest of it.
    pub(crate) fn waiting(&self, records: usize, oldest: Duration) {
        self.unsettled.set(i64::try_from(records).unwrap_or(i64::MAX));
        self.oldest.set(oldest.as_secs_f64());
    }

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
