//! Dead records: published unchanged, persistent and with confirms.

use super::PATIENCE;
use super::config::RabbitmqIntakeConfig;
use super::ticket::RabbitmqTicket;
use crate::intake::broker::{Buried, Dead, ORIGIN, REASON, buried};
use delayq_service::brokers::{
    Answers, RabbitmqLetter, close_rabbitmq, publish_rabbitmq, rabbitmq_destination, rabbitmq_words,
    routes_rabbitmq,
};
use lapin::options::ConfirmSelectOptions;
use lapin::types::{AMQPValue, FieldTable};
use lapin::{BasicProperties, Channel, Connection};
use tokio::time::Instant;

const PERSISTENT: u8 = 2;

/// The destination of dead records, over a separate connection: a broker that is short of memory or disk reads nothing from
/// a publishing connection, not even acks.
pub(super) struct Burial {
    exchange: String,
    key: String,
    connection: Connection,
    channel: Channel,
}

// === impl Burial ===

impl Burial {
    /// Connects, and checks that the destination exists.
    pub(super) async fn open(config: &RabbitmqIntakeConfig, key: &str) -> Result<Self, String> {
        let connection = config.access.connect("delayq-compensator").await?;
        let channel = connection.create_channel().await.map_err(|error| rabbitmq_words(&error))?;
        let exchange = config.dead_exchange.clone();
        rabbitmq_destination(&channel, &exchange, key).await?;
        let confirms = channel.confirm_select(ConfirmSelectOptions::default()).await;
        confirms.map_err(|error| rabbitmq_words(&error))?;
        Ok(Self { exchange, key: key.to_owned(), connection, channel })
    }

    pub(super) async fn close(self) {
        let _ = close_rabbitmq(&self.connection).await;
    }

    /// Publishes dead records together.
    pub(super) async fn publish(&self, dead: &[Dead<'_, RabbitmqTicket>]) -> Vec<Buried> {
        let Self { exchange, key, channel, .. } = self;
        let letter = |dead: &Dead<'_, RabbitmqTicket>| {
            properties(&dead.ticket.properties, dead.reason, &dead.ticket.to_string())
        };
        let letters: Vec<_> = dead
            .iter()
            .map(|dead| RabbitmqLetter { exchange, key, properties: letter(dead), body: &dead.record.body })
            .collect();
        let outcomes = Answers::new(letters.len());
        publish_rabbitmq(channel, &letters, &outcomes, (Instant::now() + PATIENCE, PATIENCE)).await;
        buried(&outcomes, &format!("the dead destination `{key}` of the exchange `{exchange}`"))
    }
}

/// The properties of a record that is buried: the record's own, with the types of the headers, except for properties that
/// would let the dead record expire, change the route, or cause a refusal because of another user.
fn properties(own: &BasicProperties, reason: &str, origin: &str) -> BasicProperties {
    let mut headers = FieldTable::default();
    for (name, value) in own.headers().iter().flat_map(FieldTable::inner) {
        let name = name.as_str();
        let is_earlier = [REASON, ORIGIN].iter().any(|about| about.eq_ignore_ascii_case(name));
        if !is_earlier && !routes_rabbitmq(name) {
            headers.insert(name.into(), value.clone());
        }
    }
    headers.insert(REASON.into(), AMQPValue::LongString(reason.into()));
    headers.insert(ORIGIN.into(), AMQPValue::LongString(origin.into()));
    let mut kept = BasicProperties::default().with_delivery_mode(PERSISTENT).with_headers(headers);
    macro_rules! keep {
        ($($read:ident $write:ident),* $(,)?) => {
            $(if let Some(value) = own.$read() { kept = kept.$write(value.clone()); })*
        };
    }
    keep! {
        content_type with_content_type,
        content_encoding with_content_encoding,
        priority with_priority,
        correlation_id with_correlation_id,
        reply_to with_reply_to,
        message_id with_message_id,
        timestamp with_timestamp,
        kind with_type,
        app_id with_app_id,
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dead_record_keeps_its_properties_but_for_what_would_lose_it() {
        let mut headers = FieldTable::default();
        let text = |text: &str| AMQPValue::LongString(text.into());
        let array = AMQPValue::FieldArray(vec![text("elsewhere")].into());
        for (name, value) in [
            ("delayq-due", AMQPValue::LongLongInt(5)),
            ("CC", array),
            ("Delayq-Reason", text("an earlier one")),
        ] {
            headers.insert(name.into(), value);
        }
        let own = BasicProperties::default()
            .with_headers(headers)
            .with_message_id("m".into())
            .with_timestamp(7)
            .with_expiration("1000".into())
            .with_user_id("shop".into())
            .with_delivery_mode(1);
        let mut expected = FieldTable::default();
        expected.insert("delayq-due".into(), AMQPValue::LongLongInt(5));
        expected.insert("delayq-reason".into(), text("why"));
        expected.insert("delayq-origin".into(), text("where"));
        assert_eq!(
            properties(&own, "why", "where"),
            BasicProperties::default()
                .with_headers(expected)
                .with_message_id("m".into())
                .with_timestamp(7)
                .with_delivery_mode(PERSISTENT)
        );
    }
}
