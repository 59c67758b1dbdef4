//! The handle of a record that was handed out.

use lapin::BasicProperties;
use std::fmt;
use std::sync::Arc;

/// A record that was handed out.
#[derive(Debug)]
pub(crate) struct RabbitmqTicket {
    pub(super) queue: Arc<str>,
    pub(super) exchange: String,
    pub(super) key: String,
    pub(super) tag: u64,
    pub(super) bytes: usize,
    /// The dead record gets the same properties, with all types.
    pub(super) properties: BasicProperties,
}

// === impl RabbitmqTicket ===

impl fmt::Display for RabbitmqTicket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { queue, exchange, key, .. } = self;
        write!(f, "rabbitmq {queue}")?;
        match exchange.as_str() {
            "" => Ok(()),
            exchange => write!(f, " through exchange {exchange} by key {key}"),
        }
    }
}
