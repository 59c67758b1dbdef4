//! The handle of a record that was handed out.

use super::offsets::AssignedPlace;
use std::fmt;
use std::sync::Arc;

/// A record that was handed out.
#[derive(Debug)]
pub(crate) struct KafkaTicket {
    pub(super) topic: Arc<str>,
    pub(super) place: AssignedPlace,
    /// The dead record gets the same key.
    pub(super) key: Option<Vec<u8>>,
}

// === impl KafkaTicket ===

impl fmt::Display for KafkaTicket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { topic, place, .. } = self;
        write!(f, "kafka {topic}/{} offset {}", place.partition, place.offset)
    }
}
