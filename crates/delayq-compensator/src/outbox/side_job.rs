//! A reader's work besides carrying out rows, from time to time. A side job holds up no row: a failure is logged, and the
//! job tried again later.

use super::store::StoreError;
use std::time::{Duration, Instant};

/// After a slow job, rows have so many times as long without any job.
const SHARE: u32 = 9;

/// A side job, and the next due time.
pub(super) struct SideJob {
    /// The job's name in the log, as a verb.
    what: &'static str,
    /// The shortest time between two.
    every: Duration,
    at: Instant,
    has_failed: bool,
}

// === impl SideJob ===

impl SideJob {
    /// A job that is due at once.
    pub(super) fn new(what: &'static str, every: Duration) -> Self {
        Self { what, every, at: Instant::now(), has_failed: false }
    }

    pub(super) fn is_due(&self, now: Instant) -> bool {
        self.at <= now
    }

    /// Plans the next run, and logs the first failure in a row.
    pub(super) fn ended<T>(
        &mut self,
        began: Instant,
        now: Instant,
        result: Result<T, StoreError>,
    ) -> Option<T> {
        self.at = now + self.every.max(SHARE * now.duration_since(began));
        let had_failed = std::mem::replace(&mut self.has_failed, result.is_err());
        if let (Err(error), false) = (&result, had_failed) {
            tracing::warn!(%error, "cannot {}; applying rows continues", self.what);
        }
        result.ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_side_job_takes_a_tenth_of_the_time_at_most_however_slow_it_is() {
        let (began, every) = (Instant::now(), Duration::from_secs(2));
        let mut job = SideJob::new("test", every);
        for (took_s, rest_s) in [(0, 2), (1, 9), (15, 135)] {
            let ended = began + Duration::from_secs(took_s);
            assert_eq!(job.ended(began, ended, Ok(7)), Some(7));
            let rest = Duration::from_secs(rest_s);
            assert!(job.is_due(ended + rest) && !job.is_due(ended + rest - Duration::from_millis(1)));
        }
        let failed = Err::<(), _>(StoreError::Refused("test".to_owned()));
        assert_eq!(job.ended(began, began, failed), None);
        assert!(job.is_due(began + every) && job.has_failed);
    }
}
