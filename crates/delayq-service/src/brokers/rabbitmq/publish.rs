//! Publishing with confirms and the mandatory flag: a message is delivered when acked and not returned.

use super::confirms::{Confirms, Published};
use crate::brokers::{Outcome, Outcomes};
use futures_util::future::join_all;
use lapin::message::BasicReturnMessage;
use lapin::options::BasicPublishOptions;
use lapin::types::FieldTable;
use lapin::{BasicProperties, Channel};
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

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

/// Publishes messages, and stores the outcome of each at its index, up to a deadline. The channel has confirms, and
/// nothing else uses it meanwhile: the documentation of the confirms explains why. Returns whether the channel is reusable.
pub async fn publish_rabbitmq(
    channel: &Channel,
    letters: &[RabbitmqLetter<'_>],
    outcomes: &Outcomes,
    (deadline, patience): (Instant, Duration),
) -> bool {
    let silent = Outcome::silent(format!("no confirm within {patience:?}"));
    // Concurrent publishing shares writes: each publish waits until the client's own thread has written the frame.
    let publishing = letters.iter().map(async |letter| {
        timeout_at(deadline, letter.publish(channel)).await.unwrap_or_else(|_| Err(silent.clone()))
    });
    let published = join_all(publishing).await;
    Confirms::new(letters, outcomes, silent).collect(published, deadline).await
}

// === impl RabbitmqLetter ===

impl RabbitmqLetter<'_> {
    async fn publish(&self, channel: &Channel) -> Published {
        super::rabbitmq_key(self.exchange, self.key).map_err(Outcome::rejected)?;
        let options = BasicPublishOptions { mandatory: true, ..BasicPublishOptions::default() };
        let (exchange, key) = (self.exchange.into(), self.key.into());
        let published =
            channel.basic_publish(exchange, key, options, self.body, self.properties.clone()).await;
        published.map_err(|error| Outcome::down(super::rabbitmq_words(&error)))
    }

    /// True if a returned message is this one, or an equal one. The broker may add headers.
    pub(super) fn is_returned(&self, back: &BasicReturnMessage) -> bool {
        let found = back.delivery.properties.headers().as_ref().map(FieldTable::inner);
        let has = |(name, value)| found.is_some_and(|found| found.get(name) == Some(value));
        let mut own = self.properties.headers().iter().flat_map(FieldTable::inner);
        back.delivery.routing_key.as_str() == self.key && back.delivery.data == self.body && own.all(has)
    }
}
