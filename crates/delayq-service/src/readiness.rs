//! Readiness: named conditions, each ready or unready for a reason.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::Serialize;

/// The conditions under which this process can do its work; clones share them.
#[derive(Clone, Debug, Default)]
pub struct Readiness(Arc<Mutex<BTreeMap<&'static str, Option<String>>>>);

/// The handle of whoever knows whether one condition holds; clones share it.
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

    /// Adds a condition, unready because it is `starting`. A name that exists is the same condition.
    #[must_use]
    pub fn condition(&self, name: &'static str) -> Condition {
        self.lock().entry(name).or_insert_with(|| Some("starting".to_owned()));
        Condition { name, readiness: self.clone() }
    }

    /// What does not hold, by name; empty is ready.
    #[must_use]
    pub fn unready(&self) -> Vec<Unready> {
        let conditions = self.lock();
        let unready =
            conditions.iter().filter_map(|(name, reason)| reason.clone().map(|reason| (*name, reason)));
        unready.map(|(condition, reason)| Unready { condition, reason }).collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<&'static str, Option<String>>> {
        // One assignment is the only change under the lock: it cannot be left half done.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Condition ===

impl Condition {
    /// It holds.
    pub fn ready(&self) {
        self.set(None);
    }

    /// It does not hold, and why: a few words for whoever looks at the probe.
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
