//! `[shutdown]`: time limit for stopping.

use crate::config::{Faults, HumanDuration, Section};
use serde::{Deserialize, Serialize};

/// `[shutdown]`: one deadline for finishing or giving back all work.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ShutdownConfig {
    /// Maximum time from the signal to the exit; tasks still running then are named and abandoned. 100 ms to 10 m;
    /// default 10 s. Keep the supervisor's own kill timeout longer.
    pub drain_deadline: HumanDuration,
}

// === impl ShutdownConfig ===

impl Default for ShutdownConfig {
    fn default() -> Self {
        Self { drain_deadline: HumanDuration::from_secs(10) }
    }
}

impl Section for ShutdownConfig {
    fn validate(&self, at: &mut Faults) {
        let accepted = HumanDuration::from_millis(100)..=HumanDuration::from_secs(600);
        at.range("drain_deadline", &self.drain_deadline, accepted);
    }
}
