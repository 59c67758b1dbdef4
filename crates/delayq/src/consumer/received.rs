//! A message as a consumer received it.

use delayq_core::envelope::Envelope;
use delayq_core::id::{Group, MessageId, Topic};
use delayq_core::time::{UnixMicros, UnixMillis};
use std::time::Duration;

/// A message as a consumer received it.
#[derive(Debug)]
pub struct Received {
    /// Its topic.
    pub topic: Topic,
    /// Its id.
    pub id: MessageId,
    /// When it became ready, on Redis's clock.
    pub ready: UnixMicros,
    /// The message itself; its attempt and delivery count this one.
    pub envelope: Envelope,
}

// === impl Received ===

impl Received {
    /// The payload, as it was put.
    pub fn payload(&self) -> &[u8] {
        &self.envelope.payload
    }

    /// The producer's headers: names and values.
    pub fn headers(&self) -> &[(String, String)] {
        &self.envelope.headers
    }

    /// Its group.
    pub fn group(&self) -> Option<&Group> {
        self.envelope.group.as_ref()
    }

    /// The number of this attempt, from 1.
    pub fn attempt(&self) -> u16 {
        self.envelope.attempt
    }

    /// When it was due.
    pub fn due(&self) -> UnixMillis {
        self.envelope.due
    }

    /// How late it became ready.
    pub fn lateness(&self) -> Duration {
        self.ready.since(self.envelope.due)
    }
}
