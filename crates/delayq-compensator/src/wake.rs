//! When to continue after a step: a pure decision.

use crate::resubmit::Report;
use std::time::Duration;

/// When to continue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wake {
    /// At once: there is more.
    Now,
    /// Once the spool has changed.
    Change,
    /// After a rest.
    Rest(Duration),
}

/// `failures`: steps in a row that ended with something held.
pub(crate) fn wake(report: &Report, failures: u32, longest_rest: Duration) -> Wake {
    match report {
        Report { held: Some(_), .. } => {
            let first = longest_rest / 100;
            Wake::Rest((first * 2_u32.saturating_pow(failures.saturating_sub(1).min(16))).min(longest_rest))
        }
        Report { resubmitted: 0, rejected: 0, .. } => Wake::Change,
        _ => Wake::Now,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_continues_an_empty_spool_waits_and_an_outage_rests_longer_each_time() {
        let longest = Duration::from_secs(5);
        assert_eq!(wake(&Report::default(), 0, longest), Wake::Change);
        assert_eq!(wake(&Report { resubmitted: 1, ..Report::default() }, 0, longest), Wake::Now);
        let held = Report { held: Some("down".to_owned()), resubmitted: 3, rejected: 0 };
        for (failures, ms) in [(1, 50), (2, 100), (3, 200), (7, 3_200), (8, 5_000), (4_000_000, 5_000)] {
            assert_eq!(wake(&held, failures, longest), Wake::Rest(Duration::from_millis(ms)), "{failures}");
        }
    }
}
