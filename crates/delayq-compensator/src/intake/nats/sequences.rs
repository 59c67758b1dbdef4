//! Which sequences of a stream were passed over, and which of these its limits have dropped. Pure.
//!
//! A sequence that is missing may have been of another subject, or deleted by an operator. One that lies in front of the first
//! record that the stream still has was dropped by its limits. A consumer with a subject never receives the records of
//! others, so its gaps count only where it was behind: what was dropped then may have been its own.

/// The sequences of a stream, as they come, over all connections.
#[derive(Debug, Default)]
pub(super) struct Sequences {
    /// Whether the consumer reads all subjects.
    is_whole: bool,
    /// More was waiting when the last one came.
    is_behind: bool,
    /// The next one if nothing is missing; 0: not known.
    next: u64,
    /// Those that were passed over, up to the one before the second.
    gaps: Vec<(u64, u64)>,
    lost: Vec<(u64, u64)>,
    /// Behind the last one that was found to be lost.
    lost_to: u64,
}

// === impl Sequences ===

impl Sequences {
    pub(super) fn new(is_whole: bool) -> Self {
        Self { is_whole, ..Self::default() }
    }

    /// Notes the last sequence of the stream at a new connection: one that was made again counts from 1 again.
    pub(super) fn connected(&mut self, last: u64) {
        if last + 1 < self.next {
            *self = Self::new(self.is_whole);
        }
    }

    /// Begins behind the last one that the consumer has ever passed.
    pub(super) fn begin(&mut self, passed: u64) {
        self.next = self.next.max(passed + 1);
        self.gaps.push((self.next, u64::MAX));
    }

    /// Notes that the consumer has passed this one. Of one that reads all subjects, each of them comes.
    pub(super) fn passed(&mut self, sequence: u64) {
        if !self.is_whole && self.next > 0 {
            self.next = self.next.max(sequence + 1);
        }
    }

    /// Notes that nothing is asked for.
    pub(super) fn fall_behind(&mut self) {
        self.is_behind = true;
    }

    /// Notes one that came, and how many were waiting behind it; an earlier one comes again.
    pub(super) fn arrived(&mut self, sequence: u64, waiting: u64) {
        if self.next > 0 && sequence > self.next && (self.is_whole || self.is_behind) {
            self.gaps.push((self.next, sequence));
        }
        self.is_behind = waiting > 0;
        self.next = self.next.max(sequence + 1);
    }

    pub(super) fn has_gaps(&self) -> bool {
        !self.gaps.is_empty()
    }

    /// Compares the gaps with the first sequence that the stream has; `drops_within`: it bounds the records of each subject, so
    /// that it drops some behind that too.
    pub(super) fn look(&mut self, first: u64, drops_within: bool) {
        for (from, to) in std::mem::take(&mut self.gaps) {
            let is_all = drops_within && self.is_whole && to < u64::MAX;
            let end = if is_all { to } else { to.min(first) };
            // Of an open end, what was found before is not found again.
            let from = from.max(self.lost_to);
            if from < end {
                self.lost.push((from, end));
                self.lost_to = end;
            }
            self.next = self.next.max(end.min(first));
        }
    }

    /// What was lost since the last call.
    pub(super) fn take_lost(&mut self) -> Vec<(u64, u64)> {
        std::mem::take(&mut self.lost)
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
            sequences.arrived(sequence, 0);
        }
        sequences.look(61, false);
        assert_eq!(sequences.take_lost(), [], "63 and 64 were deleted");
        sequences.arrived(70, 0);
        sequences.look(68, false);
        assert_eq!(sequences.take_lost(), [(66, 68)]);
        sequences.arrived(80, 0);
        sequences.look(68, true);
        assert_eq!(sequences.take_lost(), [(71, 80)], "each subject has a limit of its own");
    }

    #[test]
    fn nothing_is_lost_where_nothing_is_missing() {
        let mut sequences = Sequences::new(true);
        sequences.begin(10);
        sequences.look(5, false);
        for sequence in [11, 9, 12] {
            sequences.arrived(sequence, 0);
        }
        assert!(!sequences.has_gaps());
    }

    #[test]
    fn of_a_subject_only_what_was_dropped_while_its_consumer_was_behind_is_lost() {
        let mut sequences = Sequences::new(false);
        sequences.begin(10);
        sequences.look(5, false);
        sequences.arrived(50, 3);
        sequences.look(30, false);
        assert_eq!(sequences.take_lost(), [], "it was behind nothing");
        sequences.arrived(90, 0);
        sequences.look(70, true);
        assert_eq!(sequences.take_lost(), [(51, 70)], "of the three that were waiting, two are gone");
        sequences.arrived(200, 0);
        sequences.passed(250);
        sequences.fall_behind();
        sequences.arrived(300, 0);
        sequences.look(280, false);
        assert_eq!(sequences.take_lost(), [(251, 280)], "while nothing was asked for");
    }

    #[test]
    fn what_was_passed_over_one_connection_is_not_lost_over_the_next() {
        let mut sequences = Sequences::new(false);
        sequences.begin(10);
        sequences.look(5, false);
        sequences.passed(500);
        sequences.connected(600);
        sequences.begin(10);
        sequences.look(450, false);
        assert_eq!(sequences.take_lost(), [], "the server has forgotten how far it was");
        sequences.connected(3);
        sequences.begin(0);
        sequences.look(3, false);
        assert_eq!(sequences.take_lost(), [(1, 3)], "of a stream that was made again");
    }
}
