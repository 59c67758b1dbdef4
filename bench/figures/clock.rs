//! The clock of the measurements: this host's, monotonic.

use rustix::time::{ClockId, clock_gettime};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Time limit of each wait.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) fn now() -> Instant {
    Instant::now()
}

pub(crate) fn micros(span: Duration) -> u64 {
    u64::try_from(span.as_micros()).unwrap_or(u64::MAX)
}

#[allow(clippy::disallowed_methods, reason = "measuring is reading the clock")]
pub(crate) fn since_epoch() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

pub(crate) fn own_cpu() -> f64 {
    let used = clock_gettime(ClockId::ProcessCPUTime);
    used.tv_sec as f64 + used.tv_nsec as f64 / 1e9
}
