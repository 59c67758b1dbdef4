//! Metrics: a registry that is passed in, and the histogram of lateness.
//!
//! There are no globals: `build` gets a [`Metrics`], registers its metrics, and keeps the handles.
//!
//! A log line and its metric cannot drift apart: there is one function per event, which writes both.
//!
//! ```
//! use delayq_service::metrics::Metrics;
//! use prometheus_client::metrics::counter::Counter;
//!
//! /// An owner with a lower epoch was refused.
//! fn owner_refused(refused: &Counter, shard: u16, epoch: u64) {
//!     refused.inc();
//!     tracing::warn!(shard, epoch, "another timer owns this shard");
//! }
//!
//! let metrics = Metrics::new();
//! let refused: Counter = metrics.register("timer_owner_refused", "Pumps refused for their epoch.", Counter::default());
//! owner_refused(&refused, 7, 3);
//! assert!(metrics.encode().contains("delayq_timer_owner_refused_total 1"));
//! ```

use crate::program::Program;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Metric, Registry, Unit};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The prefix of every metric's name.
pub const PREFIX: &str = "delayq";

/// Upper bounds of the buckets of [`Lateness`], in seconds: fine around the promised lateness, coarse up to an hour.
pub const LATENESS_BUCKETS: [f64; 22] = [
    0.000_05, 0.000_1, 0.000_2, 0.000_3, 0.000_5, 0.000_75, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2,
    0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0,
];

/// The registry of this process; clones share it.
#[derive(Clone, Debug)]
pub struct Metrics(Arc<Mutex<Registered>>);

#[derive(Debug)]
struct Registered {
    registry: Registry,
    names: BTreeSet<String>,
}

/// A histogram of lateness in seconds.
#[derive(Clone, Debug)]
pub struct Lateness(Histogram);

// === impl Metrics ===

impl Metrics {
    /// An empty registry.
    #[must_use]
    pub fn new() -> Self {
        Self(Arc::new(Mutex::new(Registered {
            registry: Registry::with_prefix(PREFIX),
            names: BTreeSet::new(),
        })))
    }

    /// Registers a metric as `delayq_<name>` and returns the handle. A counter's name gets `_total` automatically.
    ///
    /// # Panics
    /// If the name is taken: two metrics of one name are a bug.
    pub fn register<M: Metric + Clone>(&self, name: &str, help: &str, metric: M) -> M {
        self.lock(name).registry.register(name, help, metric.clone());
        metric
    }

    /// Registers a metric with a unit, which ends the name: `Unit::Seconds` makes `delayq_<name>_seconds`.
    ///
    /// # Panics
    /// If the name is taken.
    pub fn register_with_unit<M: Metric + Clone>(&self, name: &str, help: &str, unit: Unit, metric: M) -> M {
        self.lock(name).registry.register_with_unit(name, help, unit, metric.clone());
        metric
    }

    /// Registers `delayq_<name>_seconds` as a histogram of lateness; the timer's is plainly `lateness`.
    ///
    /// # Panics
    /// If the name is taken.
    #[must_use]
    pub fn lateness(&self, name: &str, help: &str) -> Lateness {
        Lateness(self.register_with_unit(name, help, Unit::Seconds, Histogram::new(LATENESS_BUCKETS)))
    }

    /// Registers `delayq_build_info` with the program and its version.
    ///
    /// # Panics
    /// If already registered.
    pub fn build_info(&self, program: Program) {
        let labels = vec![("program", program.name), ("version", program.version)];
        self.lock("build").registry.register("build", "Program and version", Info::new(labels));
    }

    /// All metrics as OpenMetrics text.
    #[must_use]
    pub fn encode(&self) -> String {
        let mut text = String::new();
        encode(&mut text, &self.registered().registry).expect("writing to a string cannot fail");
        text
    }

    fn lock(&self, name: &str) -> MutexGuard<'_, Registered> {
        let mut registered = self.registered();
        let fresh = registered.names.insert(name.to_owned());
        assert!(fresh, "the metric {name} is registered twice");
        registered
    }

    fn registered(&self) -> MutexGuard<'_, Registered> {
        // A metric that a panic refused is not half registered.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

// === impl Lateness ===

impl Lateness {
    /// Records a lateness.
    pub fn observe(&self, late: Duration) {
        self.0.observe(late.as_secs_f64());
    }

    /// Records a lateness in milliseconds of Redis's clock. An early event counts as 0, and is a bug with a counter of
    /// its own.
    pub fn observe_ms(&self, late_ms: i64) {
        self.observe(Duration::from_millis(u64::try_from(late_ms).unwrap_or(0)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use prometheus_client::metrics::counter::Counter;

    #[test]
    fn lateness_is_counted_in_the_bucket_of_its_seconds() {
        let metrics = Metrics::new();
        let lateness = metrics.lateness("lateness", "Ready minus due.");
        lateness.observe(Duration::from_micros(60));
        lateness.observe(Duration::from_secs(30));
        lateness.observe_ms(-5);
        let text = metrics.encode();
        for line in [
            "# UNIT delayq_lateness_seconds seconds",
            "delayq_lateness_seconds_bucket{le=\"0.00005\"} 1",
            "delayq_lateness_seconds_bucket{le=\"0.0001\"} 2",
            "delayq_lateness_seconds_bucket{le=\"60.0\"} 3",
            "delayq_lateness_seconds_count 3",
            "# EOF",
        ] {
            assert!(text.contains(line), "{line} is not in\n{text}");
        }
    }

    #[test]
    #[should_panic(expected = "the metric puts is registered twice")]
    fn a_name_cannot_be_registered_twice() {
        let metrics = Metrics::new();
        let _: Counter = metrics.register("puts", "One.", Counter::default());
        let _: Counter = metrics.register("puts", "Two.", Counter::default());
    }
}
