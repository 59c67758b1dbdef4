//! The metrics of writes that wait for replicas or a disk.

use delayq::Client;
use delayq_service::Metrics;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Unit;

const BUCKETS: [f64; 10] = [0.000_5, 0.001, 0.002, 0.005, 0.01, 0.05, 0.2, 0.5, 1.0, 5.0];

/// Registers the metrics, and counts the confirmations that this client and clones wait for.
///
/// # Panics
/// The metrics are registered already.
pub fn watch_confirmations(client: &Client, metrics: &Metrics) {
    let took = metrics.register_with_unit(
        "confirm",
        "From sending writes to topics with durability until replicas or the disk confirmed them, or did not in time",
        Unit::Seconds,
        Histogram::new(BUCKETS),
    );
    let unconfirmed: Counter = metrics.register(
        "unconfirmed",
        "Pipelines of writes that replicas or the disk did not confirm in time",
        Counter::default(),
    );
    client.observe_confirmations(move |confirmation| {
        took.observe(confirmation.took.as_secs_f64());
        unconfirmed.inc_by(u64::from(!confirmation.confirmed));
    });
}
