//! One parcel as the properties of one message.

use crate::Parcel;
use delayq_service::brokers::routes_rabbitmq;
use lapin::BasicProperties;
use lapin::types::{AMQPValue, FieldTable};

const PERSISTENT: u8 = 2;

/// Persistent, with every header, and the matching AMQP properties.
pub(super) fn properties(parcel: &Parcel, priority: Option<u8>) -> BasicProperties {
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
    if let Some(priority) = priority {
        properties = properties.with_priority(priority);
    }
    properties.with_timestamp(parcel.about.ready.0 / 1_000_000)
}
