//! One parcel as one message.

use super::RabbitmqConfig;
use crate::Parcel;
use delayq_service::brokers::{RabbitmqLetter, routes_rabbitmq};
use lapin::BasicProperties;
use lapin::types::{AMQPValue, FieldTable};

const PERSISTENT: u8 = 2;

/// Persistent, with every header, and the matching AMQP properties.
pub(super) fn letter<'p>(parcel: &'p Parcel, config: &'p RabbitmqConfig) -> RabbitmqLetter<'p> {
    let mut headers = FieldTable::default();
    for (name, value) in parcel.all_headers().filter(|(name, _)| !routes_rabbitmq(name)) {
        headers.insert(name.into(), AMQPValue::LongString(value.as_ref().into()));
    }
    let mut properties = BasicProperties::default().with_delivery_mode(PERSISTENT).with_headers(headers);
    // A short string has at most 255 bytes; an identity may be longer.
    if parcel.about.identity.len() <= 255 {
        properties = properties.with_message_id(parcel.about.identity.as_str().into());
    }
    if let Some(kind) = parcel.header("content-type").filter(|kind| kind.len() <= 255) {
        properties = properties.with_content_type(kind.into());
    }
    if let Some(priority) = config.priority {
        properties = properties.with_priority(priority);
    }
    let properties = properties.with_timestamp(parcel.about.ready.0 / 1_000_000);
    RabbitmqLetter { exchange: &config.exchange, key: &parcel.destination, properties, body: &parcel.body }
}
