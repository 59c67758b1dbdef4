//! Repeated log lines: a bounded number is shown per window, and the rest are counted.
//!
//! A fault that occurs a thousand times a second logs the same line each time; the number of suppressed lines is logged
//! instead.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tracing::callsite::Identifier;
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;

/// Maximum lines of one code location in [`WINDOW`]. `debug` and `trace` are explicit requests and have no limit.
const SHOWN: u64 = 20;
/// Window after which counts restart and suppressed lines are reported.
pub(crate) const WINDOW: Duration = Duration::from_secs(10);

/// Counts of logged lines per code location; clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Repeats(Arc<Mutex<HashMap<Identifier, Repeated>>>);

#[derive(Debug)]
struct Repeated {
    place: &'static Metadata<'static>,
    since: Instant,
    shown: u64,
    left_out: u64,
}

// === impl Repeats ===

impl Repeats {
    /// Counts since the last call.
    pub(crate) fn report(&self) {
        let left_out: Vec<_> = self
            .lock()
            .values_mut()
            .filter(|seen| seen.left_out > 0)
            .map(|seen| (seen.place, std::mem::take(&mut seen.left_out)))
            .collect();
        for (place, left_out) in left_out {
            // Libraries that log through the crate `log` share one location per level.
            let place = match (place.file(), place.line()) {
                (Some(file), Some(line)) => format!("{file}:{line}"),
                _ => "libraries".to_owned(),
            };
            tracing::warn!(left_out, place, "suppressed repeats of a log line");
        }
    }

    fn shows(&self, place: &'static Metadata<'static>, now: Instant) -> bool {
        let mut all = self.lock();
        let seen =
            all.entry(place.callsite()).or_insert(Repeated { place, since: now, shown: 0, left_out: 0 });
        if now.saturating_duration_since(seen.since) >= WINDOW {
            (seen.since, seen.shown) = (now, 0);
        }
        let shows = seen.shown < SHOWN;
        if shows {
            seen.shown += 1;
        } else {
            seen.left_out += 1;
        }
        shows
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Identifier, Repeated>> {
        // The numbers are consistent after each single change.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<S: Subscriber> Layer<S> for Repeats {
    fn event_enabled(&self, event: &Event<'_>, _: Context<'_, S>) -> bool {
        let place = event.metadata();
        // The report of suppressed lines is never suppressed.
        let is_report = place.target() == module_path!();
        *place.level() > Level::INFO || is_report || self.shows(place, Instant::now())
    }
}
