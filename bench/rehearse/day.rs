//! The compressed day: maps the log's times to Redis's clock. Pure.

use delayq::UnixMillis;
use serde::{Deserialize, Serialize};
use std::time::Duration;

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Day {
    pub(crate) first_ms: i64,
    /// Last time of the log, due times included.
    pub(crate) last_ms: i64,
    pub(crate) start_ms: u64,
    pub(crate) speed: f64,
}

// === impl Day ===

impl Day {
    pub(crate) fn speed_within(first_ms: i64, last_ms: i64, within: Duration) -> f64 {
        let span_ms = (last_ms - first_ms).max(1) as f64;
        span_ms / (within.as_secs_f64() * 1000.0).max(1.0)
    }

    pub(crate) fn real(&self, log_ms: i64) -> UnixMillis {
        let offset_ms = (log_ms - self.first_ms) as f64 / self.speed;
        UnixMillis::new((self.start_ms as f64 + offset_ms).round().max(1.0) as u64)
    }

    pub(crate) fn log_ms(&self, real: UnixMillis) -> i64 {
        let offset_ms = (real.get() as f64 - self.start_ms as f64) * self.speed;
        self.first_ms + offset_ms as i64
    }

    /// 0 to 1.
    pub(crate) fn fraction(&self, real: UnixMillis) -> f64 {
        let span_ms = (self.last_ms - self.first_ms).max(1) as f64;
        ((self.log_ms(real) - self.first_ms) as f64 / span_ms).clamp(0.0, 1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_of_an_hour_is_played_in_a_minute() {
        let (first_ms, last_ms) = (1_360_303_200_000, 1_360_306_800_000);
        let speed = Day::speed_within(first_ms, last_ms, Duration::from_secs(60));
        let day = Day { first_ms, last_ms, start_ms: 1_800_000_000_000, speed };
        assert!((speed - 60.0).abs() < 1e-9);
        for (log_ms, real_ms, fraction) in
            [(first_ms, 0, 0.0), (first_ms + 60_000, 1000, 1.0 / 60.0), (last_ms, 60_000, 1.0)]
        {
            let real = UnixMillis::new(day.start_ms + real_ms);
            assert_eq!(day.real(log_ms), real);
            assert_eq!(day.log_ms(real), log_ms);
            assert!((day.fraction(real) - fraction).abs() < 1e-9);
        }
        assert!(day.fraction(UnixMillis::new(day.start_ms - 5000)).abs() < 1e-9);
    }
}
