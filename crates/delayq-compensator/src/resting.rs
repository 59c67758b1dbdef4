//! The writes that rest alone.
//!
//! A write that cannot be carried out although Redis can be used, such as a write to a missing shard, rests until another
//! try. Later writes of the same message rest too, because no write overtakes an older one; all other writes continue. A
//! change of a group rests behind writes of the group's messages, and such writes behind the change.
//!
//! This module has the resting writes of a batch, by hashes of eight bytes: two that have the same hash rest together, which
//! does no harm. The source keeps the resting records of earlier batches.

use delayq::spool::SpoolRecord;
use delayq::{Group, Topic};
use std::collections::HashSet;
use std::hash::{BuildHasher, Hash, RandomState};

/// The writes that rest.
#[derive(Debug, Default)]
pub(crate) struct Resting {
    hasher: RandomState,
    messages: HashSet<u64>,
    /// The groups of these messages.
    groups: HashSet<u64>,
    /// The group of some resting message is unknown.
    any_group: bool,
    /// The groups of which a change rests.
    changes: HashSet<u64>,
}

// === impl Resting ===

impl Resting {
    /// True if a write has to rest, because an older write of the message or a change of the group rests. Also adds that
    /// write.
    pub(crate) fn holds(&mut self, write: &SpoolRecord) -> bool {
        let held = self.messages.contains(&self.hash(message_of(write)))
            || write.target.group.as_ref().is_some_and(|group| self.changes.contains(&self.hash(group)))
            || write.is_of_any_group() && !self.changes.is_empty();
        if held {
            self.add(write);
        }
        held
    }

    /// Lets a write rest.
    pub(crate) fn add(&mut self, write: &SpoolRecord) {
        self.messages.insert(self.hash(message_of(write)));
        self.groups.extend(write.target.group.as_ref().map(|group| self.hash(group)));
        self.any_group |= write.is_of_any_group();
    }

    /// True if a change of a group has to rest, because a write of a message in the group rests. Also adds that change.
    pub(crate) fn holds_group(&mut self, group: &Group) -> bool {
        let hash = self.hash(group);
        let held = self.any_group || self.groups.contains(&hash) || self.changes.contains(&hash);
        if held {
            self.add_group(group);
        }
        held
    }

    /// Lets a change of a group rest.
    pub(crate) fn add_group(&mut self, group: &Group) {
        self.changes.insert(self.hash(group));
    }

    fn hash(&self, of: impl Hash) -> u64 {
        self.hasher.hash_one(of)
    }
}

/// The message that a write is of: topic and stored id.
pub(crate) fn message_of(write: &SpoolRecord) -> (Topic, Vec<u8>) {
    (write.topic.clone(), write.target.stored().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use delayq::protocol::ShardId;
    use delayq::{MessageId, Target, UnixMillis};

    fn group(name: &str) -> Group {
        Group::new(name).unwrap()
    }

    fn cancel(id: MessageId, group: Option<&str>) -> SpoolRecord {
        let target = Target { id, group: group.map(self::group) };
        SpoolRecord::cancel(&Topic::new("t").unwrap(), &target, UnixMillis::new(1))
    }

    fn own(id: &str, group: Option<&str>) -> SpoolRecord {
        cancel(MessageId::own(id).unwrap(), group)
    }

    #[test]
    fn a_change_of_a_group_rests_behind_its_messages_and_what_follows_behind_it() {
        let mut resting = Resting::default();
        assert!(!resting.holds_group(&group("g")));
        resting.add(&own("a", Some("g")));
        assert!(!resting.holds(&own("b", Some("g"))) && !resting.holds_group(&group("other")));
        assert!(!resting.holds(&own("a", None)), "that is another message");
        assert!(resting.holds_group(&group("g")));
        assert!(resting.holds(&own("b", Some("g"))), "now a change of its group rests");
        assert!(!resting.holds(&own("c", None)) && !resting.holds(&own("d", Some("other"))));
    }

    #[test]
    fn a_message_whose_group_is_unknown_may_be_of_any() {
        let generated = || cancel(MessageId::generate(ShardId::new(1), 1), None);
        let mut resting = Resting::default();
        resting.add_group(&group("g"));
        assert!(resting.holds(&generated()));
        assert!(resting.holds_group(&group("other")), "behind the one of any group");
        let mut resting = Resting::default();
        resting.add(&generated());
        assert!(resting.holds_group(&group("g")) && !resting.holds(&own("a", None)));
    }
}
