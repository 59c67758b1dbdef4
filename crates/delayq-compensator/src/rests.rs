//! The time of the next try of resting records: a pure decision.

use std::time::{Duration, Instant};

/// Records that rest, or may: another process, or an operator, lets records rest too.
#[derive(Debug)]
pub(crate) struct Rests {
    tries: u32,
    again_at: Instant,
    is_known: bool,
    longest: Duration,
}

// === impl Rests ===

impl Rests {
    /// Due at once: records may rest since before this process.
    pub(crate) fn new(longest: Duration, now: Instant) -> Self {
        Self { tries: 0, again_at: now, is_known: false, longest }
    }

    /// So many records rest. True if that is news.
    pub(crate) fn note(&mut self, records: u64, now: Instant) -> bool {
        if records == 0 {
            // A due try stays due.
            let again_at = self.again_at.min(now + self.longest);
            *self = Self { again_at, ..Self::new(self.longest, now) };
            return false;
        }
        let is_news = !std::mem::replace(&mut self.is_known, true);
        if is_news {
            self.plan(now);
        }
        is_news
    }

    /// Plans a try at once.
    pub(crate) fn hurry(&mut self, now: Instant) {
        (self.tries, self.again_at) = (0, now);
    }

    /// True if a try is due; then plans the next try.
    pub(crate) fn is_due(&mut self, now: Instant) -> bool {
        let is_due = self.again_at <= now;
        if is_due {
            self.plan(now);
        }
        is_due
    }

    pub(crate) fn again_at(&self) -> Instant {
        self.again_at
    }

    fn plan(&mut self, now: Instant) {
        self.tries += 1;
        let rest = if self.is_known { back_off(self.tries, self.longest) } else { self.longest };
        self.again_at = now + rest;
    }
}

/// The rest after so many failures in a row: first a hundredth of the longest rest, then twice as long each time.
pub(crate) fn back_off(failures: u32, longest_rest: Duration) -> Duration {
    let first = longest_rest / 100;
    (first * 2_u32.saturating_pow(failures.saturating_sub(1).min(16))).min(longest_rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONGEST: Duration = Duration::from_secs(5);

    #[test]
    fn records_that_another_process_lets_rest_are_looked_for_whatever_is_known() {
        let now = Instant::now();
        let mut rests = Rests::new(LONGEST, now);
        assert!(rests.is_due(now), "at the start");
        // Every read of the books reports that.
        rests.note(0, now);
        rests.note(0, now + LONGEST / 2);
        assert!(!rests.is_due(now) && rests.is_due(now + LONGEST));
        assert!(rests.note(1, now + LONGEST) && !rests.note(1, now + LONGEST));
        assert!(rests.is_due(now + LONGEST + LONGEST / 2), "they are tried sooner once they are known");
    }

    #[test]
    fn an_outage_rests_longer_each_time() {
        for (failures, ms) in [(1, 50), (2, 100), (3, 200), (7, 3_200), (8, 5_000), (4_000_000, 5_000)] {
            assert_eq!(back_off(failures, LONGEST), Duration::from_millis(ms), "{failures}");
        }
    }
}
