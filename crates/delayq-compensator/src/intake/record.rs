//! A record from a broker.

use delayq::UnixMillis;

/// A record of a topic, queue or stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct BrokerRecord {
    /// Names and values, in order.
    pub(crate) headers: Vec<(String, Vec<u8>)>,
    /// The body.
    pub(crate) body: Vec<u8>,
    /// Time of publication, by the clock of the broker or the producer; `None`: unknown.
    pub(crate) at: Option<UnixMillis>,
    /// The id in the broker's own field.
    pub(crate) id: Option<String>,
    /// The broker reports an earlier delivery, and the outcome of that is unknown.
    pub(crate) is_repeat: bool,
    /// The record has no body at all; only Kafka distinguishes that from an empty body.
    pub(crate) has_no_value: bool,
    /// Why the record is incomplete, and so unreadable.
    pub(crate) damage: Option<&'static str>,
}

// === impl BrokerRecord ===

impl BrokerRecord {
    /// Approximate size in memory.
    pub(crate) fn bytes(&self) -> usize {
        /// Size of two allocations with addresses.
        const HEADER: usize = 64;
        let headers = self.headers.iter().map(|(name, value)| HEADER + name.len() + value.len());
        size_of::<Self>() + self.body.len() + headers.sum::<usize>()
    }
}
