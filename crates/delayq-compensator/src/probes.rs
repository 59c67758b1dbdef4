//! Which of the records that rest alone are tried again: some of each cause, for all of one cause are most often mended
//! together.

use delayq::Topic;
use std::collections::BTreeMap;

/// Records of one cause that are tried again.
const OF_A_CAUSE: usize = 16;

/// Maximum number of causes that are told apart: some name a group.
const CAUSES: usize = 1000;

/// Why records rest, and the first of each cause. A cause is of one topic, or of changes of groups.
#[derive(Debug, Default)]
pub(crate) struct Probes(BTreeMap<(Option<Topic>, String), Vec<u64>>);

// === impl Probes ===

impl Probes {
    /// Notes why a record rests. One that rests only because an older one of its message does is not noted.
    pub(crate) fn note(&mut self, seq: u64, topic: Option<&Topic>, why: &str) {
        let cause = (topic.cloned(), why.to_owned());
        if self.0.len() >= CAUSES && !self.0.contains_key(&cause) {
            return;
        }
        let of_cause = self.0.entry(cause).or_default();
        if of_cause.len() < OF_A_CAUSE {
            of_cause.push(seq);
        }
    }

    /// The numbers of some of each cause, in order: `most` at most, of as many causes as that allows.
    pub(crate) fn numbers(&self, most: usize) -> Vec<u64> {
        let nth = |n: usize| self.0.values().filter_map(move |of_cause| of_cause.get(n).copied());
        let mut numbers: Vec<u64> = (0..OF_A_CAUSE).flat_map(nth).take(most).collect();
        numbers.sort_unstable();
        numbers
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_of_each_cause_are_tried_whatever_number_of_others_rests() {
        let (one, other) = (Topic::new("one").unwrap(), Topic::new("other").unwrap());
        let mut probes = Probes::default();
        for seq in 1..=1000 {
            probes.note(seq, Some(&one), "it is broken");
        }
        probes.note(1001, Some(&other), "it is broken");
        probes.note(1002, None, "another shift is under way");
        assert_eq!(probes.numbers(500), (1..=16).chain([1001, 1002]).collect::<Vec<_>>());
        assert_eq!(probes.numbers(4), [1, 2, 1001, 1002], "each cause has its turn");
    }
}
