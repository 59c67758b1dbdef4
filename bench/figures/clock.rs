//! The clock of the measurements: this host's, monotonic.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

#[allow(clippy::disallowed_methods, reason = "measuring is reading the clock")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

pub(crate) fn micros(span: Duration) -> u64 {
    u64::try_from(span.as_micros()).unwrap_or(u64::MAX)
}

#[allow(clippy::disallowed_methods, reason = "measuring is reading the clock")]
pub(crate) fn since_epoch() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// The processor time that this process has used so far, in seconds; 0 where the system does not say.
pub(crate) fn own_cpu() -> f64 {
    /// Of a second: what Linux counts in, whatever its timers' rate.
    const TICKS: f64 = 100.0;
    let text = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // Behind the name, which is in brackets and may hold anything, user and system time are the 12th and 13th field.
    let fields = text.rsplit(") ").next().unwrap_or_default().split(' ').skip(11).take(2);
    fields.filter_map(|field| field.parse::<f64>().ok()).sum::<f64>() / TICKS
}
