//! Pauses between tries: pure, except for the random spread that keeps a fleet from trying in step.

use std::time::Duration;

const FIRST: Duration = Duration::from_millis(100);

/// Pauses that double from a tenth of a second up to a limit, each extended by a random part of up to its own length.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Backoff {
    limit: Duration,
    failures: u32,
}

// === impl Backoff ===

impl Backoff {
    pub(crate) fn up_to(limit: Duration) -> Self {
        Self { limit, failures: 0 }
    }

    /// Never longer than the limit.
    pub(crate) fn next(&mut self) -> Duration {
        let pause = FIRST.saturating_mul(1 << self.failures.min(16)).min(self.limit);
        self.failures += 1;
        (pause + pause.mul_f64(fastrand::f64())).min(self.limit)
    }

    pub(crate) fn reset(&mut self) {
        self.failures = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_limit_and_start_again() {
        let limit = Duration::from_secs(1);
        let mut backoff = Backoff::up_to(limit);
        for least_ms in [100, 200, 400, 800, 1000, 1000] {
            let least = Duration::from_millis(least_ms);
            let pause = backoff.next();
            assert!(pause >= least && pause <= (least * 2).min(limit), "{pause:?} after {least:?}");
        }
        backoff.reset();
        assert!(backoff.next() <= Duration::from_millis(200));
    }
}
