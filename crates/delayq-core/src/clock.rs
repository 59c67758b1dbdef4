//! This host's clock. It orders generated ids and dates spooled records; no due time is measured by it.

use crate::UnixMillis;
use std::time::{SystemTime, UNIX_EPOCH};
use tokio::time::Instant;

/// This host's time; 0 before the epoch.
#[allow(clippy::disallowed_methods, reason = "the one place of this crate that reads the host's clock")]
pub(crate) fn now() -> UnixMillis {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    UnixMillis::new(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

/// This instant, to say later how long ago it was.
#[allow(clippy::disallowed_methods, reason = "tokio's clock, which tests can pause")]
pub(crate) fn instant() -> Instant {
    Instant::now()
}
