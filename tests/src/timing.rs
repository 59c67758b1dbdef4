//! Time bounds on a shared machine: kept, missed, or inconclusive.
//!
//! # The rule
//!
//! * A time within its bound is kept, whatever the machine did meanwhile.
//! * A time beyond its bound, and beyond the machine's own delays, is missed: the test fails.
//! * A time between the two is *inconclusive*: the cause is unknown. The run is repeated, [`TRIES`] times in all, if they
//!   begin within a minute: a machine that has been busy for that long stays so. If every run is inconclusive, the test prints a line that begins with `INCONCLUSIVE` and its name, and ends like a skipped test.
//!   With `DELAYQ_TEST_TIMING=strict` the test fails instead: for a machine that is meant to be quiet.
//!
//! So a saturated machine hides no miss, and makes no test fail by chance.

use crate::environment::strict_timing;
use crate::remark::{remark, this_test};
use std::fmt;
use std::time::{Duration, Instant};

/// Maximum runs until a conclusive result.
pub const TRIES: u32 = 3;
const PATIENCE: Duration = Duration::from_secs(60);

/// The result of a run; a missed bound has already failed the test.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "give it to `conclusive`, which repeats the run"]
pub enum Timing {
    /// Every bound was kept.
    Kept,
    /// A bound was not kept, perhaps because of the machine.
    Inconclusive(String),
}

// === impl Timing ===

impl Timing {
    /// Judges a time. `allowed` is the bound plus the machine's delays ([`crate::stall::Stall::allow`]), beyond which
    /// it panics.
    pub fn of(what: impl fmt::Display, took: Duration, bound: Duration, allowed: Duration) -> Self {
        assert!(
            took <= allowed.max(bound),
            "{what}: {took:?}, at most {bound:?}, with this machine {allowed:?}"
        );
        if took <= bound {
            return Self::Kept;
        }
        Self::Inconclusive(format!("{what}: {took:?}, at most {bound:?}, with this machine {allowed:?}"))
    }

    /// Combines two results: kept if both are.
    pub fn and(self, other: Self) -> Self {
        if self == Self::Kept { other } else { self }
    }
}

/// Repeats a run until conclusive, by the rule of this module. Each run starts from scratch.
pub async fn conclusive(run: impl AsyncFn() -> Timing) {
    let name = this_test();
    let (begun, mut reasons) = (Instant::now(), Vec::new());
    for _ in 0..TRIES {
        if begun.elapsed() > PATIENCE {
            break;
        }
        match run().await {
            Timing::Kept => return,
            Timing::Inconclusive(why) => reasons.push(why),
        }
    }
    let (times, reasons) = (reasons.len(), reasons.join("; "));
    let verdict = format!("INCONCLUSIVE {name}: this machine was too busy, {times} times: {reasons}");
    assert!(!strict_timing(), "{verdict}");
    remark(&verdict);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn a_time_within_its_bound_is_kept_however_busy_the_machine() {
        assert_eq!(Timing::of("it", MS, MS, 100 * MS), Timing::Kept);
    }

    #[test]
    fn a_time_that_the_machine_may_explain_is_not_passed() {
        let timing = Timing::of("it", 50 * MS, MS, 100 * MS);
        assert!(matches!(&timing, Timing::Inconclusive(why) if why.contains("50ms")));
        assert_eq!(Timing::Kept.and(timing.clone()), timing);
        assert_eq!(timing.clone().and(Timing::Kept), timing);
    }

    #[test]
    #[should_panic(expected = "at most 1ms, with this machine 2ms")]
    fn a_time_that_the_machine_cannot_explain_fails() {
        let _ = Timing::of("it", 3 * MS, MS, 2 * MS);
    }

    #[tokio::test]
    async fn a_run_is_repeated_until_it_is_conclusive_and_not_for_ever() {
        for (kept_at, runs_expected) in [(1, 1), (2, 2), (99, TRIES)] {
            let runs = Cell::new(0);
            conclusive(async || {
                runs.set(runs.get() + 1);
                if runs.get() == kept_at { Timing::Kept } else { Timing::Inconclusive("busy".to_owned()) }
            })
            .await;
            assert_eq!(runs.get(), runs_expected);
        }
    }
}
