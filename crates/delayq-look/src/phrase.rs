//! Counts, durations and drains in words.

use delayq::UnixMillis;
use delayq_cluster::DrainInfo;
use delayq_service::when::time;
use std::time::Duration;

/// A count with its noun: `1 dead letter`, `2 dead letters`.
pub fn counted(count: u64, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

/// A duration in at most two units.
pub fn duration(length: Duration) -> String {
    let whole = match length.as_secs() {
        0..60 => Duration::from_millis(length.as_millis() as u64),
        seconds => Duration::from_secs(seconds),
    };
    humantime::format_duration(whole).to_string().split(' ').take(2).collect::<Vec<_>>().join(" ")
}

/// The drain of a timer: name, start and reason.
pub fn drained(drain: &DrainInfo) -> String {
    let DrainInfo { name, since_ms, reason, registered } = drain;
    let since = time(UnixMillis::new(*since_ms));
    let gone = if *registered { "" } else { ", and not registered" };
    let reason = if reason.is_empty() { String::new() } else { format!(": {reason}") };
    format!("{name} is drained since {since}{gone}{reason}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_has_at_most_two_units() {
        for (seconds, text) in
            [(0, "0s"), (59, "59s"), (3_661, "1h 1m"), (90_000, "1day 1h"), (800_000, "9days 6h")]
        {
            assert_eq!(duration(Duration::from_secs(seconds)), text);
        }
        assert_eq!(duration(Duration::from_micros(1_500)), "1ms");
    }
}
