//! The offsets of each partition that are handed out and settled. Pure.
//!
//! Records are settled in any order, but a partition has one committed offset: the first unsettled record.

use std::collections::{HashMap, VecDeque};

/// The partitions that are assigned to this process.
#[derive(Debug, Default)]
pub(super) struct Offsets {
    partitions: HashMap<i32, Partition>,
    assignments: u64,
}

/// A record's place, and the partition's assignment at the time of the hand-out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct AssignedPlace {
    pub(super) partition: i32,
    pub(super) offset: i64,
    assignment: u64,
}

#[derive(Debug)]
struct Partition {
    assignment: u64,
    /// The next offset, if nothing is missing; `None`: that is not known.
    next: Option<i64>,
    /// Offsets that were passed over.
    gaps: Vec<Gap>,
    /// Offsets that were handed out, from the first unsettled one on, each with true if settled.
    out: VecDeque<(i64, bool)>,
}

/// Offsets that came without a record, up to the one before `to`.
#[derive(Debug)]
struct Gap {
    from: i64,
    to: i64,
    looks: u8,
}

/// Number of times that a gap is compared with the beginning of the log, which is known only with a delay.
const LOOKS: u8 = 3;

// === impl Offsets ===

impl Offsets {
    /// A partition was assigned: records handed out before are lost. `next` is the committed offset.
    pub(super) fn assign(&mut self, partition: i32, next: Option<i64>) {
        self.assignments += 1;
        let assigned =
            Partition { assignment: self.assignments, next, gaps: Vec::new(), out: VecDeque::new() };
        self.partitions.insert(partition, assigned);
    }

    /// A partition was taken away.
    pub(super) fn revoke(&mut self, partition: i32) {
        self.partitions.remove(&partition);
    }

    pub(super) fn assigned(&self) -> impl Iterator<Item = i32> {
        self.partitions.keys().copied()
    }

    /// Hands out a record; `None`: the partition is not assigned. If offsets go back, because the log was cut off or the
    /// topic created again, earlier records are lost.
    pub(super) fn hand_out(&mut self, partition: i32, offset: i64) -> Option<AssignedPlace> {
        if self.partitions.get(&partition)?.out.back().is_some_and(|(last, _)| *last >= offset) {
            self.assign(partition, None);
        }
        let known = self.partitions.get_mut(&partition)?;
        if let Some(from) = known.next.filter(|&next| next < offset) {
            known.gaps.push(Gap { from, to: offset, looks: 0 });
        }
        known.next = Some(offset + 1);
        known.out.push_back((offset, false));
        Some(AssignedPlace { partition, offset, assignment: known.assignment })
    }

    /// Offsets that were passed over because the partition's log now begins further on: `from` and `to` of each. Offsets
    /// left out by compaction or a transaction lie behind the beginning, and are no loss.
    pub(super) fn dropped(&mut self, partition: i32, low: i64) -> Vec<(i64, i64)> {
        let Some(known) = self.partitions.get_mut(&partition) else { return Vec::new() };
        let mut dropped = Vec::new();
        known.gaps.retain_mut(|gap| {
            gap.looks += 1;
            if gap.from < low {
                dropped.push((gap.from, gap.to.min(low)));
            }
            gap.from >= low && gap.looks < LOOKS
        });
        dropped
    }

    pub(super) fn is_lost(&self, place: &AssignedPlace) -> bool {
        self.partitions.get(&place.partition).is_none_or(|known| known.assignment != place.assignment)
    }

    /// Settles a record; the last offset up to which the whole partition is settled now, if that has advanced.
    pub(super) fn settle(&mut self, place: &AssignedPlace) -> Option<i64> {
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
        offsets.assign(3, None);
        // Offsets have gaps, where transactions or compaction leave them.
        let places: Vec<AssignedPlace> =
            [10, 11, 15, 16].iter().map(|offset| offsets.hand_out(3, *offset).unwrap()).collect();
        assert_eq!(offsets.settle(&places[2]), None);
        assert_eq!(offsets.settle(&places[0]), Some(10));
        assert_eq!(offsets.settle(&places[1]), Some(15));
        assert_eq!(offsets.settle(&places[1]), None, "a second time");
        assert_eq!(offsets.settle(&places[3]), Some(16));
    }

    #[test]
    fn a_gap_is_a_loss_only_where_the_log_begins_behind_it() {
        let mut offsets = Offsets::default();
        offsets.assign(0, Some(100));
        for offset in [160, 161, 163, 170] {
            offsets.hand_out(0, offset).unwrap();
        }
        // The known beginning may be from before the gap.
        assert_eq!(offsets.dropped(0, 100), []);
        assert_eq!(offsets.dropped(0, 160), [(100, 160)]);
        assert_eq!(offsets.dropped(0, 165), [(162, 163), (164, 165)]);
        assert_eq!(offsets.dropped(0, 1_000), [], "each is reported once, and forgotten");
        // Compaction and transactions leave gaps behind the beginning.
        offsets.assign(1, None);
        for offset in [50, 60] {
            offsets.hand_out(1, offset).unwrap();
        }
        for low in [0, 0, 0, 60] {
            assert_eq!(offsets.dropped(1, low), []);
        }
    }

    #[test]
    fn offsets_that_go_back_are_committed_and_those_before_are_lost() {
        let mut offsets = Offsets::default();
        offsets.assign(0, None);
        let (old, new) = (offsets.hand_out(0, 100).unwrap(), offsets.hand_out(0, 3).unwrap());
        assert!(offsets.is_lost(&old) && !offsets.is_lost(&new));
        assert_eq!((offsets.settle(&old), offsets.settle(&new)), (None, Some(3)));
    }

    #[test]
    fn what_was_handed_out_before_a_rebalance_is_lost_and_settles_nothing() {
        let mut offsets = Offsets::default();
        offsets.assign(0, None);
        offsets.assign(1, None);
        let (kept, lost) = (offsets.hand_out(0, 5).unwrap(), offsets.hand_out(1, 5).unwrap());
        offsets.revoke(1);
        assert!(offsets.is_lost(&lost) && !offsets.is_lost(&kept));
        assert_eq!((offsets.hand_out(1, 6), offsets.settle(&lost)), (None, None));
        offsets.assign(1, None);
        assert!(offsets.is_lost(&lost), "it comes again under the new assignment");
        let again = offsets.hand_out(1, 5).unwrap();
        assert_eq!((offsets.settle(&lost), offsets.settle(&again)), (None, Some(5)));
        assert_eq!(offsets.settle(&kept), Some(5));
    }
}
