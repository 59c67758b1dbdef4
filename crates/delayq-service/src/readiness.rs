//! Readiness and liveness: named conditions, each ready or unready with a reason, and heartbeats of loops that must not
//! hang.

use crate::heartbeat::{Heartbeat, Heartbeats};
use serde::Serialize;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The readiness conditions and heartbeats of a process; clones share them.
#[derive(Clone, Debug, Default)]
pub struct Readiness {
    conditions: Arc<Mutex<BTreeMap<Cow<'static, str>, Option<String>>>>,
    failing: Arc<Mutex<BTreeMap<String, String>>>,
    heartbeats: Heartbeats,
}

/// Maximum bytes of a reason in [`Readiness::failing`].
const MAX_REASON: usize = 500;

/// The handle for reporting one condition; clones share it.
#[derive(Clone, Debug)]
pub struct Condition {
    name: Cow<'static, str>,
    readiness: Readiness,
}

/// An unmet condition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Unready {
    /// The name of the condition.
    pub condition: Cow<'static, str>,
    /// The reason.
    pub reason: String,
}

// === impl Readiness ===

impl Readiness {
    /// Without conditions, hence ready.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a condition, unready with the reason `starting`. An existing name returns the same condition.
    #[must_use]
    pub fn condition(&self, name: impl Into<Cow<'static, str>>) -> Condition {
        let name = name.into();
        self.lock().entry(name.clone()).or_insert_with(|| Some("starting".to_owned()));
        Condition { name, readiness: self.clone() }
    }

    /// The unmet conditions, by name; ready if empty.
    #[must_use]
    pub fn unready(&self) -> Vec<Unready> {
        let conditions = self.lock();
        let unready = conditions
            .iter()
            .filter_map(|(name, reason)| reason.clone().map(|reason| (name.clone(), reason)));
        unready.map(|(condition, reason)| Unready { condition, reason }).collect()
    }

    /// Notes what somebody else refuses to this process, which is ready all the same; `None`: no longer. A long reason is cut.
    pub fn fails(&self, what: String, reason: Option<&str>) {
        let mut failing = self.failing.lock().unwrap_or_else(PoisonError::into_inner);
        match reason {
            Some(reason) => {
                failing.insert(what, reason[..reason.floor_char_boundary(MAX_REASON)].to_owned());
            }
            None => drop(failing.remove(&what)),
        }
    }

    /// The noted failures, by name.
    #[must_use]
    pub fn failing(&self) -> BTreeMap<String, String> {
        self.failing.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Adds a heartbeat: the owner beats at least once in `within`, or `/livez` and the service manager's watchdog
    /// consider the process stuck. Dropping the heartbeat ends the supervision.
    #[must_use]
    pub fn heartbeat(&self, name: &'static str, within: Duration) -> Heartbeat {
        self.heartbeats.add(name, within)
    }

    /// The late heartbeats, by name; alive if empty.
    #[must_use]
    pub fn stuck(&self) -> Vec<&'static str> {
        self.heartbeats.stuck()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Cow<'static, str>, Option<String>>> {
        // The only change under the lock is one assignment: a panic cannot leave a half-made change.
        self.conditions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Condition ===

impl Condition {
    /// Marks the condition as met.
    pub fn ready(&self) {
        self.set(None);
    }

    /// Marks the condition as unmet, for a reason that the probe shows.
    pub fn unready(&self, reason: impl Into<String>) {
        self.set(Some(reason.into()));
    }

    fn set(&self, reason: Option<String>) {
        self.readiness.lock().insert(self.name.clone(), reason);
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
        assert_eq!(readiness.unready(), [Unready { condition: "redis".into(), reason: "starting".into() }]);
        redis.ready();
        assert!(readiness.unready().is_empty());
        readiness.fails("shop orders".to_owned(), Some(&"é".repeat(MAX_REASON)));
        assert!(readiness.unready().is_empty(), "another's fault");
        assert_eq!(readiness.failing()["shop orders"].len(), MAX_REASON);
        readiness.fails("shop orders".to_owned(), None);
        assert!(readiness.failing().is_empty());
        readiness.condition("redis").clone().unready("no answer");
        assert_eq!(readiness.unready(), [Unready { condition: "redis".into(), reason: "no answer".into() }]);
    }
}
