//! A message as received by a consumer.

use delayq_core::envelope::Envelope;
use delayq_core::id::{Group, MessageId, Topic};
use delayq_core::time::{UnixMicros, UnixMillis};
use std::time::Duration;

/// A message as received by a consumer.
#[derive(Debug)]
pub struct Received {
    /// The topic.
    pub topic: Topic,
    /// The id.
    pub id: MessageId,
    /// Time when the message became ready, on Redis's clock.
    pub ready: UnixMicros,
    /// The message itself, with counts of attempts and deliveries that include the present delivery.
    pub envelope: Envelope,
}

// === impl Received ===

impl Received {
    /// Returns the payload as scheduled.
    pub fn payload(&self) -> &[u8] {
        &self.envelope.payload
    }

    /// Returns the producer's headers: names and values.
    pub fn headers(&self) -> &[(String, String)] {
        &self.envelope.headers
    }

    /// Returns the group.
    pub fn group(&self) -> Option<&Group> {
        self.envelope.group.as_ref()
    }

    /// Returns the number of this attempt, from 1.
    pub fn attempt(&self) -> u16 {
        self.envelope.attempt
    }

    /// Returns the due time.
    pub fn due(&self) -> UnixMillis {
        self.envelope.due
    }

    /// Returns the delay between the due time and the time when the message became ready.
    pub fn lateness(&self) -> Duration {
        self.ready.since(self.envelope.due)
    }
}
