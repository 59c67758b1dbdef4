//! This host's clock. It orders generated ids and dates first tries; no due time is measured by it.

use delayq_core::time::UnixMillis;
use std::time::SystemTime;
use tokio::time::Instant;

/// This host's time; 0 before the epoch.
#[allow(clippy::disallowed_methods, reason = "the one place of this crate that reads the host's clock")]
pub(crate) fn now() -> UnixMillis {
    SystemTime::now().into()
}

/// This instant, to say later how long ago it was.
#[allow(clippy::disallowed_methods, reason = "tokio's clock, which tests can pause")]
pub(crate) fn instant() -> Instant {
    Instant::now()
}
