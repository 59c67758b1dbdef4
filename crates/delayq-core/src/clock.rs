//! This host's clock. It orders generated ids and dates spooled records; no due time is measured by it.

use std::time::{SystemTime, UNIX_EPOCH};

/// Milliseconds since the epoch; 0 before it.
#[allow(clippy::disallowed_methods, reason = "the one place of this crate that reads the host's clock")]
pub(crate) fn unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
