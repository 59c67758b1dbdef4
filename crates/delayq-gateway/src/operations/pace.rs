//! How fast an operation goes: as many messages a call as Redis changes in a time that other callers do not notice, and pauses.

use std::time::Duration;
use tokio::time::sleep;

const MIN_STEP: usize = 25;
const MAX_STEP: usize = 100;
/// A longer call delays other callers by more than the promised 3 ms, on a machine that is a little busier.
const LONG: Duration = Duration::from_micros(2_500);
/// Other callers have Redis alone for a ninth of the time, and between two calls of an operation.
const REST: u32 = 8;
/// A sleep may last a millisecond longer, so shorter ones are added up.
const SHORTEST_REST: Duration = Duration::from_millis(10);

#[derive(Clone, Copy, Debug)]
pub(super) struct OperationPace {
    step: usize,
    /// The pause that is due.
    owed: Duration,
}

// === impl OperationPace ===

impl Default for OperationPace {
    fn default() -> Self {
        Self { step: MIN_STEP, owed: Duration::ZERO }
    }
}

impl OperationPace {
    /// Maximum messages of the next call.
    pub(super) const fn step(self) -> usize {
        self.step
    }

    /// Notes the time of a call.
    pub(super) fn took(&mut self, time: Duration) {
        let step = if time > LONG { self.step / 2 } else { self.step + self.step / 4 };
        self.step = step.clamp(MIN_STEP, MAX_STEP);
    }

    /// Pauses after this much work.
    pub(super) async fn rest(&mut self, busy: Duration) {
        self.owed += busy / REST;
        if self.owed >= SHORTEST_REST {
            sleep(std::mem::take(&mut self.owed)).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_grow_while_they_are_short_and_halve_after_a_long_one() {
        let (mut pace, mut steps) = (OperationPace::default(), Vec::new());
        for micros in [500, 800, 900, 1_000, 1_200, 1_500, 1_800, 2_600, 900, 9_000, 9_000] {
            steps.push(pace.step());
            pace.took(Duration::from_micros(micros));
        }
        assert_eq!(steps, [25, 31, 38, 47, 58, 72, 90, 100, 50, 62, 31]);
        assert_eq!(pace.step(), MIN_STEP);
    }
}
