//! What the gateways tell each other once a second: that they live, and the demand of each tenant.
//!
//! Clocks of hosts differ. So a gateway lives as long as its text changes: each beat has another number.

use crate::tenant::Tenant;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};
use std::time::Duration;
use tokio::time::Instant;

/// A gateway whose text has not changed for this long takes no part.
const SILENT: Duration = Duration::from_secs(3);
/// After this long its text is removed.
const ENDED: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(super) struct Beats {
    name: String,
    number: u64,
    seen: HashMap<String, (String, Instant)>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct Beat {
    number: u64,
    /// Puts a second, by tenant.
    puts: HashMap<String, u64>,
}

// === impl Beats ===

impl Beats {
    pub(super) fn new() -> Self {
        Self { name: format!("{:016x}", fastrand::u64(..)), number: 0, seen: HashMap::new() }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// The next beat.
    pub(super) fn text(&mut self, demands: &HashMap<Tenant, u64>) -> String {
        self.number += 1;
        let wanted = demands.iter().filter(|(_, demand)| **demand > 0);
        let puts = wanted.map(|(tenant, demand)| (tenant.name().to_owned(), *demand)).collect();
        serde_json::to_string(&Beat { number: self.number, puts })
            .expect("a beat is made of texts and numbers")
    }

    /// The demands of each other gateway that lives.
    pub(super) fn others(
        &mut self,
        all: &BTreeMap<String, String>,
        now: Instant,
    ) -> Vec<HashMap<String, u64>> {
        self.seen.retain(|name, _| all.contains_key(name));
        for (name, text) in all.iter().filter(|(name, _)| **name != self.name) {
            match self.seen.get(name) {
                Some((known, _)) if known == text => {}
                _ => drop(self.seen.insert(name.clone(), (text.clone(), now))),
            }
        }
        let live = self.seen.values().filter(|(_, at)| now.saturating_duration_since(*at) < SILENT);
        live.map(|(text, _)| serde_json::from_str::<Beat>(text).unwrap_or_default().puts).collect()
    }

    pub(super) fn ended(&self, now: Instant) -> Vec<String> {
        let is_ended = |at: Instant| now.saturating_duration_since(at) > ENDED;
        self.seen.iter().filter(|(_, (_, at))| is_ended(*at)).map(|(name, _)| name.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gateway_counts_while_its_beats_change() {
        let (mut one, mut other, start) = (Beats::new(), Beats::new(), Instant::now());
        let acme: Tenant = "acme".parse().unwrap();
        let demands = HashMap::from([(acme, 7)]);
        let at = |seconds| start + Duration::from_secs(seconds);
        let beat = other.text(&demands);
        let all =
            BTreeMap::from([(other.name().to_owned(), beat), (one.name().to_owned(), one.text(&demands))]);
        assert_eq!(one.others(&all, at(0)), [HashMap::from([("acme".to_owned(), 7)])]);
        assert_eq!(one.others(&all, at(2)).len(), 1);
        assert_eq!(one.others(&all, at(3)).len(), 0, "silent");
        let all = BTreeMap::from([(other.name().to_owned(), other.text(&HashMap::new()))]);
        assert_eq!(one.others(&all, at(4)), [HashMap::new()]);
        assert_eq!(one.ended(at(60)), Vec::<String>::new());
        assert_eq!(one.ended(at(65)), [other.name()]);
    }
}
