//! This host's clock. It orders generated ids and dates first tries; no due time is measured by it.

use delayq_core::time::UnixMillis;
use std::time::SystemTime;
use tokio::time::Instant;

/// This host's time; 0 before the epoch.
#[allow(clippy::disallowed_methods, reason = "the one place of this crate that reads the host's clock")]
pub(crate) fn now() -> UnixMillis {
    SystemTime::now().into()
}

/// When an instant was, on this host's clock as it is set now: it may have been set since.
pub(crate) fn wall_time_of(instant: Instant) -> UnixMillis {
    now().set_by(-(instant.elapsed().as_millis() as i64))
}

/// This instant, to say later how long ago it was.
#[allow(clippy::disallowed_methods, reason = "tokio's clock, which tests can pause")]
pub(crate) fn instant() -> Instant {
    Instant::now()
}
