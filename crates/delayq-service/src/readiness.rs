//! Readiness and liveness: named conditions, each ready or unready for a reason, and heartbeats of what must not hang.

use crate::heartbeat::{Heartbeat, Heartbeats};
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The conditions under which this process can do its work, and its heartbeats; clones share them.
#[derive(Clone, Debug, Default)]
pub struct Readiness {
    conditions: Arc<Mutex<BTreeMap<&'static str, Option<String>>>>,
    heartbeats: Heartbeats,
}

/// The handle with which its owner reports whether one condition holds; clones share it.
#[derive(Clone, Debug)]
pub struct Condition {
    name: &'static str,
    readiness: Readiness,
}

/// A condition that does not hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Unready {
    /// Its name.
    pub condition: &'static str,
    /// Why not.
    pub reason: String,
}

// === impl Readiness ===

impl Readiness {
    /// No conditions, hence ready.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a condition, unready with the reason `starting`. An existing name returns the same condition.
    #[must_use]
    pub fn condition(&self, name: &'static str) -> Condition {
        self.lock().entry(name).or_insert_with(|| Some("starting".to_owned()));
        Condition { name, readiness: self.clone() }
    }

    /// The conditions that do not hold, by name; ready if empty.
    #[must_use]
    pub fn unready(&self) -> Vec<Unready> {
        let conditions = self.lock();
        let unready =
            conditions.iter().filter_map(|(name, reason)| reason.clone().map(|reason| (*name, reason)));
        unready.map(|(condition, reason)| Unready { condition, reason }).collect()
    }

    /// Adds a heartbeat: its owner beats at least once in `within`, or `/livez` and the service manager's watchdog consider
    /// the process stuck. It ends when it is dropped.
    #[must_use]
    pub fn heartbeat(&self, name: &'static str, within: Duration) -> Heartbeat {
        self.heartbeats.add(name, within)
    }

    /// The late heartbeats, by name; alive if empty.
    #[must_use]
    pub fn stuck(&self) -> Vec<&'static str> {
        self.heartbeats.stuck()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<&'static str, Option<String>>> {
        // The only change under the lock is one assignment: a panic cannot leave it half done.
        self.conditions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Condition ===

impl Condition {
    /// It holds.
    pub fn ready(&self) {
        self.set(None);
    }

    /// It does not hold, for a reason that the probe shows.
    pub fn unready(&self, reason: impl Into<String>) {
        self.set(Some(reason.into()));
    }

    fn set(&self, reason: Option<String>) {
        self.readiness.lock().insert(self.name, reason);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ready_is_when_no_condition_has_a_reason() {
        let readiness = Readiness::new();
        assert!(readiness.unready().is_empty());
        let redis = readiness.condition("redis");
        assert_eq!(readiness.unready(), [Unready { condition: "redis", reason: "starting".into() }]);
        redis.ready();
        assert!(readiness.unready().is_empty());
        readiness.condition("redis").clone().unready("no answer");
        assert_eq!(readiness.unready(), [Unready { condition: "redis", reason: "no answer".into() }]);
    }
}
