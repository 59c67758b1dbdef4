//! One pass over the spool: how far it is, and which records rest alone meanwhile.
//!
//! A record that cannot be carried out although Redis can be used, such as one whose shard is missing, rests until the
//! next pass. So do the later records of its message, for no write overtakes an older one; all others go on.

use delayq::spool::SpoolRecord;
use delayq::{MessageId, Topic};
use std::collections::HashSet;

/// A pass.
#[derive(Debug, Default)]
pub(crate) struct Pass {
    /// The number of the last record that was read.
    pub(crate) read: u64,
    messages: HashSet<(Topic, MessageId)>,
    records: u64,
    why: Option<String>,
}

// === impl Pass ===

impl Pass {
    /// Whether a record has to rest, because an older one of its message does. It is counted then.
    pub(crate) fn holds(&mut self, record: &SpoolRecord) -> bool {
        let held = !self.messages.is_empty() && self.messages.contains(&message_of(record));
        self.records += u64::from(held);
        held
    }

    /// Lets a record rest.
    pub(crate) fn rest(&mut self, record: &SpoolRecord, why: String) {
        self.messages.insert(message_of(record));
        self.records += 1;
        self.why.get_or_insert(why);
    }

    /// Goes back to the first record if none rests: what was let wait again has an old number.
    pub(crate) fn end(&mut self) {
        if self.records == 0 {
            *self = Self::default();
        }
    }

    /// How many records rest, and why the first one does.
    pub(crate) fn resting(&self) -> Option<(u64, &str)> {
        self.why.as_deref().map(|why| (self.records, why))
    }
}

fn message_of(record: &SpoolRecord) -> (Topic, MessageId) {
    (record.topic.clone(), record.target.id.clone())
}
