//! This host's clock. Due times never depend on this clock.

use delayq::UnixMillis;
use std::time::{SystemTime, UNIX_EPOCH};

/// Milliseconds of this host's clock; 0 before the epoch.
#[must_use]
#[allow(clippy::disallowed_methods, reason = "the module that reads this host's clock")]
pub fn host_now() -> UnixMillis {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    UnixMillis::new(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}
