//! The sequences of a stream that were passed over, and the losses among them. Pure.
//!
//! A sequence that is missing may have been of another subject, or deleted by an operator. A sequence before the stream's
//! first remaining record was dropped by the stream's limits. A consumer with a subject never receives records of other
//! subjects, so a gap counts only if the consumer was behind: a record dropped then may have had the subject.

/// The sequences of a stream in the order of arrival, over all connections.
#[derive(Debug, Default)]
pub(super) struct Sequences {
    /// True if the consumer reads all subjects.
    is_whole: bool,
    /// More records were waiting at the last arrival.
    is_behind: bool,
    /// The next sequence if nothing is missing; 0: not known.
    next: u64,
    /// Ranges that were passed over; the end is exclusive.
    gaps: Vec<(u64, u64)>,
    lost: Vec<(u64, u64)>,
    /// The sequence behind the last known loss.
    lost_to: u64,
}

// === impl Sequences ===

impl Sequences {
    pub(super) fn new(is_whole: bool) -> Self {
        Self { is_whole, ..Self::default() }
    }

    /// Notes the last sequence of the stream at a new connection: a new stream of this name counts from 1 again.
    pub(super) fn connected(&mut self, last: u64) {
        if last + 1 < self.next {
            *self = Self::new(self.is_whole);
        }
    }

    /// Begins behind the last sequence that the consumer has ever passed.
    pub(super) fn begin(&mut self, passed: u64) {
        self.next = self.next.max(passed + 1);
        self.gaps.push((self.next, u64::MAX));
    }

    /// Notes that the consumer has passed this sequence. A consumer of all subjects receives every sequence.
    pub(super) fn passed(&mut self, sequence: u64) {
        if !self.is_whole && self.next > 0 {
            self.next = self.next.max(sequence + 1);
        }
    }

    /// Notes that nothing is asked for.
    pub(super) fn fall_behind(&mut self) {
        self.is_behind = true;
    }

    /// Notes an arrival, and the number of records waiting behind. An earlier sequence is a repeated delivery.
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

    /// Compares the gaps with the first sequence that the stream has; `drops_within`: the stream bounds the records of each
    /// subject, so records behind the first are dropped too.
    pub(super) fn look(&mut self, first: u64, drops_within: bool) {
        for (from, to) in std::mem::take(&mut self.gaps) {
            let is_all = drops_within && self.is_whole && to < u64::MAX;
            let end = if is_all { to } else { to.min(first) };
            // With an open end, an earlier finding is not repeated.
            let from = from.max(self.lost_to);
            if from < end {
                self.lost.push((from, end));
                self.lost_to = end;
            }
            self.next = self.next.max(end.min(first));
        }
    }

    /// The losses since the last call.
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
