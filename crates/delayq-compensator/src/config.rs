//! `[compensator]`: resubmitting the spool.

use delayq_service::config::{Faults, HumanDuration, Section};
use serde::{Deserialize, Serialize};

/// `[compensator]`: resubmitting the spool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CompensatorConfig {
    /// Maximum number of records in one step, 1 to 2,000; not a key of the file.
    #[serde(skip)]
    pub batch: u16,
    /// Interval between polls of an empty spool, each some microseconds. 10 ms to 1 m; default 200 ms. Bounds the wait of a
    /// record while Redis is available.
    pub poll_interval: HumanDuration,
    /// Longest rest between two tries while Redis is unavailable; the first rest is a hundredth. 100 ms to 10 m; default 500
    /// ms. After a recovery of Redis, records wait at most this long, plus `[redis] call_deadline` if a call that was sent
    /// before is never answered.
    pub longest_rest: HumanDuration,
    /// Maximum number of records a second, so that a large spool leaves capacity for other clients: 1 to 1,000,000; default
    /// 0: no limit.
    pub rate: u32,
}

// === impl CompensatorConfig ===

impl CompensatorConfig {
    /// The default of `batch`.
    pub const BATCH: u16 = 2_000;
    /// The default of `poll_interval`.
    pub const POLL_INTERVAL: HumanDuration = HumanDuration::from_millis(200);
    /// The default of `longest_rest`.
    pub const LONGEST_REST: HumanDuration = HumanDuration::from_millis(500);
}

impl Default for CompensatorConfig {
    fn default() -> Self {
        Self {
            batch: Self::BATCH,
            poll_interval: Self::POLL_INTERVAL,
            longest_rest: Self::LONGEST_REST,
            rate: 0,
        }
    }
}

impl Section for CompensatorConfig {
    fn validate(&self, at: &mut Faults) {
        at.range(
            "poll_interval",
            &self.poll_interval,
            HumanDuration::from_millis(10)..=HumanDuration::from_secs(60),
        );
        let rest = HumanDuration::from_millis(100)..=HumanDuration::from_secs(600);
        at.range("longest_rest", &self.longest_rest, rest);
        at.range("rate", &self.rate, 0..=1_000_000);
    }
}
