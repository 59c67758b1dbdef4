//! This host's clock, by which what is left of a spooled delay is counted. Nothing else here reads it.

use delayq_core::UnixMillis;
use std::time::{SystemTime, UNIX_EPOCH};

/// The present millisecond.
#[allow(clippy::disallowed_methods, reason = "the module that reads this host's clock")]
pub(crate) fn host_now() -> UnixMillis {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    UnixMillis::new(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}
