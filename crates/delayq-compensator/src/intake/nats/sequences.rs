//! Which sequences of a stream were passed over, and which of these its limits have dropped. Pure.
//!
//! A sequence that is missing may have been of another subject, or deleted by an operator. One that lies in front of the first
//! record that the stream still has was dropped by its limits. Of a consumer with a subject nothing can be told: the stream
//! drops what is of others too.

/// The sequences of a stream, as they come.
#[derive(Debug, Default)]
pub(super) struct Sequences {
    /// Whether the consumer reads all subjects.
    is_whole: bool,
    /// The next one if nothing is missing; 0: not known.
    next: u64,
    /// Those that were passed over, up to the one before the second.
    gaps: Vec<(u64, u64)>,
    lost: Vec<(u64, u64)>,
}

// === impl Sequences ===

impl Sequences {
    pub(super) fn new(is_whole: bool) -> Self {
        Self { is_whole, ..Self::default() }
    }

    /// Begins behind the last one that the consumer has ever delivered.
    pub(super) fn begin(&mut self, delivered: u64) {
        self.next = delivered + 1;
        self.pass_over(delivered + 1, u64::MAX);
    }

    /// Notes one that came; an earlier one comes again.
    pub(super) fn arrived(&mut self, sequence: u64) {
        if self.next > 0 && sequence > self.next {
            self.pass_over(self.next, sequence);
        }
        self.next = self.next.max(sequence + 1);
    }

    pub(super) fn has_gaps(&self) -> bool {
        !self.gaps.is_empty()
    }

    /// Compares the gaps with the first sequence that the stream has; `drops_within`: it bounds the records of each subject, so
    /// that it drops some behind that too.
    pub(super) fn look(&mut self, first: u64, drops_within: bool) {
        for (from, to) in std::mem::take(&mut self.gaps) {
            let end = if drops_within && to < u64::MAX { to } else { to.min(first) };
            // Of an open end, what was found before is not found again.
            let from = from.max(self.lost_to());
            if from < end {
                self.lost.push((from, end));
            }
            self.next = self.next.max(end.min(first));
        }
    }

    /// What was lost since the last call.
    pub(super) fn take_lost(&mut self) -> Vec<(u64, u64)> {
        std::mem::take(&mut self.lost)
    }

    fn lost_to(&self) -> u64 {
        self.lost.last().map_or(0, |&(_, to)| to)
    }

    fn pass_over(&mut self, from: u64, to: u64) {
        if self.is_whole {
            self.gaps.push((from, to));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_streams_limits_dropped_is_lost_and_what_was_deleted_is_not() {
        let mut sequences = Sequences::new(true);
        sequences.begin(10);
        assert!(sequences.has_gaps());
        sequences.look(61, false);
        assert_eq!(sequences.take_lost(), [(11, 61)]);
        for sequence in [61, 62, 65] {
            sequences.arrived(sequence);
        }
        sequences.look(61, false);
        assert_eq!(sequences.take_lost(), [], "63 and 64 were deleted");
        sequences.arrived(70);
        sequences.look(68, false);
        assert_eq!(sequences.take_lost(), [(66, 68)]);
        sequences.arrived(80);
        sequences.look(68, true);
        assert_eq!(sequences.take_lost(), [(71, 80)], "each subject has a limit of its own");
    }

    #[test]
    fn nothing_is_lost_where_nothing_is_missing_or_other_subjects_are() {
        let mut sequences = Sequences::new(true);
        sequences.begin(10);
        sequences.look(5, false);
        for sequence in [11, 9, 12] {
            sequences.arrived(sequence);
        }
        assert!(!sequences.has_gaps());
        let mut filtered = Sequences::new(false);
        filtered.begin(10);
        filtered.arrived(50);
        assert!(!filtered.has_gaps() && filtered.take_lost().is_empty());
    }
}
