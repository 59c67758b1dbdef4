//! The handle of a record that was handed out.

use std::fmt;
use std::sync::Arc;

/// A record that was handed out.
#[derive(Debug)]
pub(crate) struct NatsTicket {
    pub(super) stream: Arc<str>,
    pub(super) sequence: u64,
    pub(super) connection: u64,
}

// === impl NatsTicket ===

impl fmt::Display for NatsTicket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "nats {} sequence {}", self.stream, self.sequence)
    }
}
