//! When to continue after a step: a pure decision.

use crate::rests::back_off;
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

/// `failures`: steps in a row that ended with something held; `rate`: how many records a second at most, 0: any number.
pub(crate) fn wake(report: &Report, failures: u32, longest_rest: Duration, rate: u32) -> Wake {
    match report {
        Report { held: Some(_), .. } => Wake::Rest(back_off(failures, longest_rest)),
        Report { at_end: true, .. } => Wake::Change,
        Report { sent, .. } if rate > 0 => {
            Wake::Rest(Duration::from_secs_f64(*sent as f64 / f64::from(rate)))
        }
        _ => Wake::Now,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_continues_an_empty_spool_waits_and_an_outage_rests_longer_each_time() {
        let longest = Duration::from_secs(5);
        let some = Report { sent: 5, ..Report::default() };
        let end = Report { at_end: true, ..Report::default() };
        assert_eq!(wake(&end, 0, longest, 0), Wake::Change);
        assert_eq!(wake(&Report { resting: 7, ..end }, 0, longest, 10), Wake::Change);
        assert_eq!(wake(&some, 0, longest, 0), Wake::Now);
        assert_eq!(wake(&some, 0, longest, 10), Wake::Rest(Duration::from_millis(500)));
        // A step of which everything rests alone is followed by the next one.
        assert_eq!(wake(&Report::default(), 0, longest, 0), Wake::Now);
        let held = Report { held: Some("down".to_owned()), ..some };
        for (failures, ms) in [(1, 50), (2, 100), (3, 200), (7, 3_200), (8, 5_000), (4_000_000, 5_000)] {
            assert_eq!(
                wake(&held, failures, longest, 0),
                Wake::Rest(Duration::from_millis(ms)),
                "{failures}"
            );
        }
    }
}
