//! `[sweep]`: looking over everything from time to time, and mending what is wrong.

use delayq_service::config::{Faults, HumanDuration, Section};
use serde::{Deserialize, Serialize};

/// `[sweep]`: looking over everything from time to time, and mending what is wrong.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SweepConfig {
    /// How often every message, entry and counter is looked at, by the timer that pumps shard 0: 100 ms to 365 d; default 1 h;
    /// 0: never. The first time after half of it at least. Watch `delayq_timer_sweep_seconds`: a sweep that takes longer is
    /// followed by the next.
    pub every: HumanDuration,
    /// The share of Redis's time that a sweep takes at most: 0.0001 to 0.5; default 0.02. A call's way to Redis counts too, so
    /// Redis is less busy than that. It takes about 2.5 s of Redis's time for a million messages.
    pub share: f64,
    /// Whether what is wrong is only counted and logged. Default false: it is mended.
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
