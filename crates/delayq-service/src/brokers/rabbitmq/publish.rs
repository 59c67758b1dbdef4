//! Publishing with confirms and the mandatory flag: a message is delivered when acked and not returned.

use super::confirms::{Confirms, Published};
use super::{RabbitmqLetter, rabbitmq_key, rabbitmq_words};
use crate::brokers::{Outcome, Outcomes};
use futures_util::future::join_all;
use lapin::Channel;
use lapin::options::BasicPublishOptions;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

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
        timeout_at(deadline, publish(channel, letter)).await.unwrap_or_else(|_| Err(silent.clone()))
    });
    let published = join_all(publishing).await;
    Confirms::new(letters, outcomes, silent).collect(published, deadline).await
}

async fn publish(channel: &Channel, letter: &RabbitmqLetter<'_>) -> Published {
    let RabbitmqLetter { exchange, key, properties, body } = letter;
    rabbitmq_key(exchange, key).map_err(Outcome::rejected)?;
    let options = BasicPublishOptions { mandatory: true, ..BasicPublishOptions::default() };
    let published =
        channel.basic_publish((*exchange).into(), (*key).into(), options, body, properties.clone()).await;
    published.map_err(|error| Outcome::down(rabbitmq_words(&error)))
}
