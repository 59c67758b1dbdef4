//! `[sweep]`: periodic checks of the whole deployment, with repair of faults.

use delayq_service::config::{Faults, HumanDuration, Section};
use serde::{Deserialize, Serialize};

/// `[sweep]`: periodic checks of the whole deployment, with repair of faults.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SweepConfig {
    /// Interval at which the timer that pumps shard 0 checks every message, entry and counter: 100 ms to 365 d; default
    /// 1 h; 0: never. The first sweep starts after at least half of the interval. Watch `delayq_timer_sweep_seconds`:
    /// after a sweep that takes longer the next sweep follows at once.
    pub every: HumanDuration,
    /// Maximum share of Redis's time that a sweep takes: 0.0001 to 0.5; default 0.02. A call's network time counts too,
    /// so Redis is less busy than that. A sweep takes about 2.5 s of Redis's time for a million messages.
    pub share: f64,
    /// True: faults are only counted and logged. Default false: faults are repaired.
    pub dry_run: bool,
}

// === impl SweepConfig ===

impl Default for SweepConfig {
    fn default() -> Self {
        Self { every: HumanDuration::from_secs(3600), share: 0.02, dry_run: false }
    }
}

impl Section for SweepConfig {
    fn validate(&self, at: &mut Faults) {
        if !self.every.is_zero() {
            let year = HumanDuration::from_secs(365 * 86_400);
            at.range("every", &self.every, HumanDuration::from_millis(100)..=year);
        }
        at.range("share", &self.share, 0.000_1..=0.5);
    }
}
