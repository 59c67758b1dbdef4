//! This host's clock, for signatures: their receiver compares them with its own. Nothing else here reads it.

use std::time::{SystemTime, UNIX_EPOCH};

/// Seconds since the epoch.
#[allow(clippy::disallowed_methods, reason = "the module that reads this host's clock")]
pub(crate) fn unix_secs() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
