//! A token bucket that holds one second's worth: within `t` seconds of a steady rate, it gives at most `t + 1` times the rate.

use std::time::Duration;
use tokio::time::Instant;

#[derive(Debug)]
pub(super) struct Bucket {
    held: f64,
    at: Instant,
}

// === impl Bucket ===

impl Bucket {
    pub(super) const fn empty(now: Instant) -> Self {
        Self { held: 0.0, at: now }
    }

    /// Takes up to `wanted`; `rate` is of the time since the call before.
    pub(super) fn take(&mut self, wanted: usize, rate: f64, now: Instant) -> usize {
        let gained = rate * now.saturating_duration_since(self.at).as_secs_f64();
        self.held = (self.held + gained).min(rate.max(1.0));
        self.at = now;
        let taken = wanted.min(self.held as usize);
        self.held -= taken as f64;
        taken
    }

    /// Until the bucket holds one.
    pub(super) fn wait(&self, rate: f64) -> Duration {
        let lacks = (1.0 - self.held).max(0.0);
        Duration::try_from_secs_f64(lacks / rate).unwrap_or(Duration::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_gives_its_rate_and_after_a_rest_one_second_more() {
        let start = Instant::now();
        let at = |ms: u64| start + Duration::from_millis(ms);
        let mut bucket = Bucket::empty(start);
        assert_eq!(bucket.take(5, 10.0, at(0)), 0);
        assert_eq!(bucket.wait(10.0), Duration::from_millis(100));
        let given: usize = (1..=50).map(|step| bucket.take(100, 10.0, at(step * 100))).sum();
        assert!((49..=50).contains(&given), "{given}");
        assert_eq!(bucket.take(100, 10.0, at(60_000)), 10);
        assert_eq!(bucket.take(100, 10.0, at(60_050)), 0);
    }

    #[test]
    fn a_rate_below_one_gives_one_in_its_time() {
        let start = Instant::now();
        let mut bucket = Bucket::empty(start);
        assert_eq!(bucket.take(3, 0.5, start + Duration::from_secs(1)), 0);
        assert_eq!(bucket.take(3, 0.5, start + Duration::from_secs(3)), 1);
        assert_eq!(bucket.take(3, 0.5, start + Duration::from_secs(4)), 0);
    }
}
