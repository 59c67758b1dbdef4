//! A circuit for each failing destination of a lane whose destinations depend on the message.
//!
//! A producer can name any number of destinations, so the number of circuits is bounded. Beyond the bound only the
//! circuit of the server applies.

use crate::circuit::{Circuit, CircuitSettings};
use std::collections::HashMap;
use std::time::Instant;

/// Maximum number of failing destinations; each name has at most [`MAX_BYTES`](crate::encode::MAX_BYTES).
const MAX: usize = 1024;

#[derive(Debug, Default)]
pub(crate) struct Failing(HashMap<String, Circuit>);

// === impl Failing ===

impl Failing {
    pub(crate) fn get(&self, destination: &str) -> Option<&Circuit> {
        self.0.get(destination)
    }

    pub(crate) fn get_mut(&mut self, destination: &str) -> Option<&mut Circuit> {
        self.0.get_mut(destination)
    }

    /// The destination accepted a message.
    pub(crate) fn forget(&mut self, destination: &str) -> Option<Circuit> {
        self.0.remove(destination)
    }

    /// The circuit of a destination, added if missing; `None`: the table is full. Circuits that no longer rest are
    /// evicted first.
    pub(crate) fn entry(
        &mut self,
        destination: &str,
        settings: CircuitSettings,
        now: Instant,
    ) -> Option<&mut Circuit> {
        if !self.0.contains_key(destination) {
            if self.0.len() >= MAX {
                self.0.retain(|_, circuit| circuit.rests(now));
            }
            if self.0.len() >= MAX {
                return None;
            }
        }
        Some(self.0.entry(destination.to_owned()).or_insert_with(|| Circuit::new(settings)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::circuit::Evidence;
    use delayq_service::brokers::Outcome;
    use std::time::Duration;

    const SETTINGS: CircuitSettings = CircuitSettings {
        failures: 1,
        first_rest: Duration::from_secs(1),
        longest_rest: Duration::from_secs(1),
        max_burials: 100,
    };

    #[test]
    fn destinations_that_only_rejected_are_forgotten_and_those_that_rest_are_kept() {
        let (mut failing, now) = (Failing::default(), Instant::now());
        failing.entry("resting", SETTINGS, now).unwrap().judge(Evidence::of(&[Outcome::down("gone")]), now);
        for n in 0..6000 {
            let circuit = failing.entry(&format!("{n}"), SETTINGS, now).unwrap();
            circuit.judge(Evidence::of(&[Outcome::rejected("no")]), now);
            assert!(failing.0.len() <= MAX);
        }
        assert!(failing.get("resting").is_some());
    }

    #[test]
    fn no_more_are_kept_than_the_bound_even_where_all_rest() {
        let (mut failing, now) = (Failing::default(), Instant::now());
        let down = Evidence::of(&[Outcome::down("gone")]);
        let kept = (0..6000).filter(|n| {
            failing.entry(&format!("{n}"), SETTINGS, now).is_some_and(|circuit| circuit.judge(down, now))
        });
        assert_eq!(kept.count(), MAX);
        // The rests have ended.
        assert!(failing.entry("another", SETTINGS, now + 2 * SETTINGS.first_rest).is_some());
    }
}
