//! A message for a RabbitMQ broker.

use lapin::BasicProperties;
use lapin::message::BasicReturnMessage;
use lapin::types::FieldTable;

/// A message to be published.
#[derive(Debug)]
pub struct RabbitmqLetter<'a> {
    /// The exchange.
    pub exchange: &'a str,
    /// The routing key.
    pub key: &'a str,
    /// The properties.
    pub properties: BasicProperties,
    /// The body.
    pub body: &'a [u8],
}

// === impl RabbitmqLetter ===

impl RabbitmqLetter<'_> {
    /// True if a returned message is this one, or an equal one. The broker may add headers.
    pub(super) fn is_returned(&self, back: &BasicReturnMessage) -> bool {
        let found = back.delivery.properties.headers().as_ref().map(FieldTable::inner);
        let has = |(name, value)| found.is_some_and(|found| found.get(name) == Some(value));
        let mut own = self.properties.headers().iter().flat_map(FieldTable::inner);
        back.delivery.routing_key.as_str() == self.key && back.delivery.data == self.body && own.all(has)
    }
}
