//! This host's clock, for ordering generated ids and dating first attempts; never for due times.

use delayq_core::time::UnixMillis;
use std::time::SystemTime;
use tokio::time::Instant;

/// This host's time; 0 before the epoch.
#[allow(clippy::disallowed_methods, reason = "the one place of this crate that reads the host's clock")]
pub(crate) fn now() -> UnixMillis {
    SystemTime::now().into()
}

/// By this host's clock as set now: the clock may have been set since.
pub(crate) fn wall_time_of(instant: Instant) -> UnixMillis {
    now().set_by(-(instant.elapsed().as_millis() as i64))
}

/// The present instant of tokio's clock, which tests can pause; for measuring elapsed time later.
pub(crate) fn instant() -> Instant {
    Instant::now()
}

/// The present instant of the system's monotonic clock, which no test can pause; for waking to a fraction of a
/// millisecond, and for comparing Redis's clock.
pub(crate) fn steady() -> std::time::Instant {
    std::time::Instant::now()
}
