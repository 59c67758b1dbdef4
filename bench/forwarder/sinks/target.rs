//! A destination with two ways in: a sink of the forwarder, and a bare client.

use super::course::Course;
use delayq_forwarder::SinkConfig;
use futures_util::{StreamExt, stream};
use std::any::Any;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicUsize, Ordering};

static RUN: AtomicU16 = AtomicU16::new(0);
static IN_FLIGHT: AtomicUsize = AtomicUsize::new(0);
static BATCH: AtomicUsize = AtomicUsize::new(0);

pub(crate) fn set_room(in_flight: u32, batch: u16) {
    IN_FLIGHT.store(in_flight as usize, Ordering::Relaxed);
    BATCH.store(usize::from(batch), Ordering::Relaxed);
}

/// Equal to the sink's.
pub(crate) fn in_flight() -> usize {
    IN_FLIGHT.load(Ordering::Relaxed)
}

/// Equal to the sink's.
pub(crate) fn batch() -> usize {
    BATCH.load(Ordering::Relaxed)
}

/// Publishes messages, reports each confirm, and ends with the last.
pub(crate) type Bare = Box<dyn Fn(usize, Arc<Course>) -> Pin<Box<dyn Future<Output = ()>>>>;

pub(crate) struct Target {
    pub(crate) sink: SinkConfig,
    pub(crate) to: &'static str,
    pub(crate) bare: Bare,
    pub(crate) _server: Box<dyn Any>,
}

/// Uses fresh ids, so that no broker treats them as repeats.
pub(crate) fn next_run() {
    RUN.fetch_add(1, Ordering::Relaxed);
}

/// The id of a bare client's message, as long as a generated id.
pub(crate) fn id(n: usize) -> String {
    let run = RUN.load(Ordering::Relaxed);
    format!("019aa5c1-{run:04x}-7abc-8def-{n:012x}")
}

/// Headers of the same length as the forwarder's.
pub(crate) fn headers(n: usize) -> [(&'static str, String); 7] {
    [
        ("delayq-id", id(n)),
        ("delayq-topic", "t".to_owned()),
        ("delayq-attempt", 1.to_string()),
        ("delayq-delivery", 1.to_string()),
        ("delayq-due", (1_700_000_000_000 + n).to_string()),
        ("delayq-ready", (1_700_000_000_000 + n).to_string()),
        ("delayq-late-ms", format!("{:.3}", n as f64 / 1000.0)),
    ]
}

/// Publishes singly, `in_flight` at a time; `publish` ends with its confirm.
pub(crate) async fn one_by_one<F, Fut>(count: usize, in_flight: usize, course: &Course, publish: F)
where
    F: Fn(usize) -> Fut,
    Fut: Future<Output = ()>,
{
    stream::iter(0..count)
        .map(publish)
        .buffer_unordered(in_flight)
        .for_each(async |()| course.confirmed(1))
        .await;
}
