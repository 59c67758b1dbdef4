//! This host's clock, for people to read in a registration; no decision depends on this clock.

use std::time::{SystemTime, UNIX_EPOCH};

/// Unix time in milliseconds; 0 on a host with a clock before 1970.
#[allow(clippy::disallowed_methods, reason = "the one place of this crate that reads the host's clock")]
pub(crate) fn unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
