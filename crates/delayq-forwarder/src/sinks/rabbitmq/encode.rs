//! One parcel as the properties of one message.

use crate::Parcel;
use lapin::BasicProperties;
use lapin::types::{AMQPValue, FieldTable};

const PERSISTENT: u8 = 2;
/// Headers by which the broker routes a message to more queues. Text in them closes the channel, so they are left out.
const ROUTING_HEADERS: [&str; 2] = ["CC", "BCC"];

/// Checks that a text is a routing key that messages may be published with: over the default exchange it is a queue, and
/// none of the broker's own, such as the reply queue of somebody's request (`amq.rabbitmq.reply-to.…`) or one that it named
/// for its only consumer (`amq.gen-…`).
///
/// # Errors
/// Why it is not.
pub(super) fn routing_key(exchange: &str, text: &str) -> Result<(), String> {
    if text.len() > 255 {
        return Err("a routing key has at most 255 bytes".to_owned());
    }
    if exchange.is_empty() && text.is_empty() {
        return Err("a queue needs a name".to_owned());
    }
    if exchange.is_empty() && text.starts_with("amq.") {
        return Err(format!(
            "the queue `{text}` is the broker's own: nothing is delivered to one that begins with amq."
        ));
    }
    Ok(())
}

/// The properties of a parcel: persistent, with every header, and with AMQP's own properties for those that have one.
pub(super) fn properties(parcel: &Parcel, priority: Option<u8>) -> BasicProperties {
    let mut headers = FieldTable::default();
    for (name, value) in parcel.all_headers().filter(|(name, _)| !ROUTING_HEADERS.contains(name)) {
        headers.insert(name.into(), AMQPValue::LongString(value.as_ref().into()));
    }
    let mut properties = BasicProperties::default().with_delivery_mode(PERSISTENT).with_headers(headers);
    // A short string has at most 255 bytes; an identity may have more.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_routing_key_is_short_and_over_the_default_exchange_no_queue_of_the_brokers_own() {
        for (exchange, key, expected) in [
            ("", "orders", true),
            ("", "", false),
            ("", "amq.rabbitmq.reply-to.g1h2", false),
            ("", "amq.gen-x", false),
            ("events", "", true),
            ("events", "amq.x", true),
        ] {
            assert_eq!(routing_key(exchange, key).is_ok(), expected, "{exchange} {key}");
        }
        assert!(routing_key("", &"x".repeat(256)).is_err());
    }
}
