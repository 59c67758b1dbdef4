//! The condition `intake`: all intakes of this process are connected and take records in.

use delayq_service::{Condition, Readiness};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// What is wrong, by the name of the intake; clones share it.
#[derive(Clone, Debug)]
pub(crate) struct Health {
    condition: Condition,
    wrong: Arc<Mutex<BTreeMap<String, String>>>,
}

// === impl Health ===

impl Health {
    /// Intakes that are yet to be connected.
    pub(crate) fn new<'n>(readiness: &Readiness, names: impl Iterator<Item = &'n String>) -> Self {
        let wrong = names.map(|name| (name.clone(), "starting".to_owned())).collect();
        Self { condition: readiness.condition("intake"), wrong: Arc::new(Mutex::new(wrong)) }
    }

    /// What is wrong with an intake; `None`: nothing. Whether that is news.
    pub(crate) fn set(&self, name: &str, why: Option<&str>) -> bool {
        // The map is whole after each change, and the condition is set under its lock, so that the last change counts.
        let mut wrong = self.wrong.lock().unwrap_or_else(PoisonError::into_inner);
        let before = match why {
            Some(why) => wrong.insert(name.to_owned(), why.to_owned()),
            None => wrong.remove(name),
        };
        match wrong.is_empty() {
            true => self.condition.ready(),
            false => {
                let all: Vec<String> = wrong.iter().map(|(name, why)| format!("{name}: {why}")).collect();
                self.condition.unready(all.join("; "));
            }
        }
        before.as_deref() != why
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_ready_once_every_intake_is() {
        let readiness = Readiness::new();
        let health = Health::new(&readiness, ["a".to_owned(), "b".to_owned()].iter());
        let reason = || readiness.unready().first().map(|unready| unready.reason.clone());
        assert!(health.set("a", Some("down")) && !health.set("a", Some("down")));
        assert_eq!(reason().as_deref(), Some("a: down; b: starting"));
        assert!(health.set("a", None) && !health.set("a", None) && health.set("b", None));
        assert_eq!(reason(), None);
    }
}
