//! Which writes rest alone.
//!
//! A write that cannot be carried out although Redis can be used, such as one whose shard is missing, rests until it is
//! tried again. So do the later writes of its message, for no write overtakes an older one; all others go on.

use delayq::spool::SpoolRecord;
use delayq::{MessageId, Topic};
use std::collections::HashSet;

/// The writes that rest.
#[derive(Debug, Default)]
pub(crate) struct Resting {
    messages: HashSet<(Topic, MessageId)>,
    writes: u64,
    why: Option<String>,
}

// === impl Resting ===

impl Resting {
    /// Whether a write has to rest, because an older one of its message does. It is counted then.
    pub(crate) fn holds(&mut self, write: &SpoolRecord) -> bool {
        let held = !self.messages.is_empty() && self.messages.contains(&message_of(write));
        self.writes += u64::from(held);
        held
    }

    /// Lets a write rest.
    pub(crate) fn add(&mut self, write: &SpoolRecord, why: String) {
        self.messages.insert(message_of(write));
        self.writes += 1;
        self.why.get_or_insert(why);
    }

    /// How many writes rest.
    pub(crate) fn count(&self) -> u64 {
        self.writes
    }

    /// Why the first one rests.
    pub(crate) fn why(&self) -> Option<&str> {
        self.why.as_deref()
    }
}

/// The message that a write is of.
pub(crate) fn message_of(write: &SpoolRecord) -> (Topic, MessageId) {
    (write.topic.clone(), write.target.id.clone())
}
