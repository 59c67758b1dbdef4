//! The records that were received and are not settled: until when each is hidden from other compensators. Pure.

use std::collections::HashMap;
use std::time::{Duration, Instant};

/// The records.
#[derive(Debug, Default)]
pub(super) struct HiddenRecords {
    received: u64,
    /// By the handle of the receipt.
    records: HashMap<String, HeldRecord>,
}

#[derive(Debug)]
struct HeldRecord {
    /// The order of the receipts.
    number: u64,
    until: Instant,
}

// === impl HiddenRecords ===

impl HiddenRecords {
    pub(super) fn add(&mut self, receipt: String, until: Instant) {
        self.received += 1;
        self.records.insert(receipt, HeldRecord { number: self.received, until });
    }

    pub(super) fn settle(&mut self, receipt: &str) {
        self.records.remove(receipt);
    }

    /// True if another compensator may have the record.
    pub(super) fn is_lost(&self, receipt: &str, now: Instant) -> bool {
        self.records.get(receipt).is_none_or(|held| held.until <= now)
    }

    pub(super) fn is_any_lost(&self, now: Instant) -> bool {
        self.records.values().any(|held| held.until <= now)
    }

    /// The records that are hidden for less than this time, in the order of the receipts.
    pub(super) fn shorter_than(&self, time: Duration, now: Instant) -> Vec<String> {
        let mut all: Vec<_> = self.records.iter().filter(|(_, held)| held.until < now + time).collect();
        all.sort_unstable_by_key(|(_, held)| held.number);
        all.into_iter().map(|(receipt, _)| receipt.clone()).collect()
    }

    /// Notes that a record is hidden until then.
    pub(super) fn extend(&mut self, receipt: &str, until: Instant) {
        if let Some(held) = self.records.get_mut(receipt) {
            held.until = until;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_lost_with_its_time_unless_that_is_extended() {
        let (mut held, now, second) = (HiddenRecords::default(), Instant::now(), Duration::from_secs(1));
        for (receipt, secs) in [("b", 30), ("a", 10)] {
            held.add(receipt.to_owned(), now + second * secs);
        }
        assert_eq!(held.shorter_than(second * 20, now), ["a"]);
        assert_eq!(held.shorter_than(second * 31, now), ["b", "a"]);
        assert!(held.is_lost("a", now + second * 10) && !held.is_lost("a", now + second * 9));
        held.extend("a", now + second * 40);
        assert!(!held.is_lost("a", now + second * 10) && held.is_any_lost(now + second * 30));
        held.settle("b");
        assert!(held.is_lost("b", now) && !held.is_lost("a", now));
    }
}
