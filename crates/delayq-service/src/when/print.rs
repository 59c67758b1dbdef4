//! Points in time as delayq writes them.

use delayq::UnixMillis;
use jiff::Timestamp;

/// A time as RFC 3339 in UTC, with milliseconds; a time beyond the calendar prints as its number of milliseconds.
#[must_use]
pub fn time(at: UnixMillis) -> String {
    Timestamp::try_from(at).map_or_else(|_| format!("{at} ms"), |at| format!("{at:.3}"))
}
