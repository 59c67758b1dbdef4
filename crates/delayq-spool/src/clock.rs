//! This host's clock, which dates spooled records. It measures no due time.

use delayq_core::time::UnixMillis;
use std::time::SystemTime;

/// This host's time; 0 before the epoch.
#[allow(clippy::disallowed_methods, reason = "the one place of this crate that reads the host's clock")]
pub(crate) fn now() -> UnixMillis {
    SystemTime::now().into()
}
