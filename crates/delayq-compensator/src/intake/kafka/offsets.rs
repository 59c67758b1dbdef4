//! Which offsets of which partitions are handed out and settled. Pure.
//!
//! Records are settled in any order, but a partition has one committed offset: it goes up to the first record that is not
//! settled yet.

use std::collections::{HashMap, VecDeque};

/// The partitions that are assigned to this process.
#[derive(Debug, Default)]
pub(super) struct Offsets {
    partitions: HashMap<i32, Partition>,
    assignments: u64,
}

/// Where a record is, and under which assignment of its partition it was handed out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) partition: i32,
    pub(super) offset: i64,
    assignment: u64,
}

#[derive(Debug)]
struct Partition {
    assignment: u64,
    /// Offsets that were handed out, from the first one that is not settled, and whether each is.
    out: VecDeque<(i64, bool)>,
}

// === impl Offsets ===

impl Offsets {
    /// A partition was assigned: what was handed out of it before is lost.
    pub(super) fn assign(&mut self, partition: i32) {
        self.assignments += 1;
        let assigned = Partition { assignment: self.assignments, out: VecDeque::new() };
        self.partitions.insert(partition, assigned);
    }

    /// A partition was taken away.
    pub(super) fn revoke(&mut self, partition: i32) {
        self.partitions.remove(&partition);
    }

    pub(super) fn assigned(&self) -> impl Iterator<Item = i32> {
        self.partitions.keys().copied()
    }

    /// Hands out a record; `None`: its partition is not assigned. Where offsets go back, because the log was cut off or the
    /// topic created again, what was handed out before is lost.
    pub(super) fn hand_out(&mut self, partition: i32, offset: i64) -> Option<Place> {
        if self.partitions.get(&partition)?.out.back().is_some_and(|(last, _)| *last >= offset) {
            self.assign(partition);
        }
        let known = self.partitions.get_mut(&partition)?;
        known.out.push_back((offset, false));
        Some(Place { partition, offset, assignment: known.assignment })
    }

    pub(super) fn is_lost(&self, place: &Place) -> bool {
        self.partitions.get(&place.partition).is_none_or(|known| known.assignment != place.assignment)
    }

    /// Settles a record; the last offset up to which all of its partition are settled now, if that is a later one.
    pub(super) fn settle(&mut self, place: &Place) -> Option<i64> {
        if self.is_lost(place) {
            return None;
        }
        let out = &mut self.partitions.get_mut(&place.partition)?.out;
        let found = out.binary_search_by_key(&place.offset, |(offset, _)| *offset).ok()?;
        out[found].1 = true;
        let mut last = None;
        while let Some((offset, true)) = out.front() {
            last = Some(*offset);
            out.pop_front();
        }
        last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_offset_is_committed_once_all_before_it_are_settled() {
        let mut offsets = Offsets::default();
        offsets.assign(3);
        // Offsets have gaps, where transactions or compaction leave them.
        let places: Vec<Place> =
            [10, 11, 15, 16].iter().map(|offset| offsets.hand_out(3, *offset).unwrap()).collect();
        assert_eq!(offsets.settle(&places[2]), None);
        assert_eq!(offsets.settle(&places[0]), Some(10));
        assert_eq!(offsets.settle(&places[1]), Some(15));
        assert_eq!(offsets.settle(&places[1]), None, "a second time");
        assert_eq!(offsets.settle(&places[3]), Some(16));
    }

    #[test]
    fn offsets_that_go_back_are_committed_and_those_before_are_lost() {
        let mut offsets = Offsets::default();
        offsets.assign(0);
        let (old, new) = (offsets.hand_out(0, 100).unwrap(), offsets.hand_out(0, 3).unwrap());
        assert!(offsets.is_lost(&old) && !offsets.is_lost(&new));
        assert_eq!((offsets.settle(&old), offsets.settle(&new)), (None, Some(3)));
    }

    #[test]
    fn what_was_handed_out_before_a_rebalance_is_lost_and_settles_nothing() {
        let mut offsets = Offsets::default();
        offsets.assign(0);
        offsets.assign(1);
        let (kept, lost) = (offsets.hand_out(0, 5).unwrap(), offsets.hand_out(1, 5).unwrap());
        offsets.revoke(1);
        assert!(offsets.is_lost(&lost) && !offsets.is_lost(&kept));
        assert_eq!((offsets.hand_out(1, 6), offsets.settle(&lost)), (None, None));
        offsets.assign(1);
        assert!(offsets.is_lost(&lost), "it comes again under the new assignment");
        let again = offsets.hand_out(1, 5).unwrap();
        assert_eq!((offsets.settle(&lost), offsets.settle(&again)), (None, Some(5)));
        assert_eq!(offsets.settle(&kept), Some(5));
    }
}
