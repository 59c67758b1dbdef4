//! The topics that have to exist, and that the user has to see.

use rdkafka::ClientContext;
use rdkafka::client::Client;
use rdkafka::metadata::Metadata;
use rdkafka::types::RDKafkaRespErr;
use std::time::Duration;

/// Checks that a description of all topics has a topic; asks for that topic if not. Blocks.
///
/// # Errors
/// The topic does not exist, or this user may not see the topic.
pub fn kafka_topic_exists<X: ClientContext>(
    metadata: &Metadata,
    topic: &str,
    client: &Client<X>,
    patience: Duration,
) -> Result<(), String> {
    if metadata.topics().iter().any(|known| known.name() == topic) {
        return Ok(());
    }
    // This query creates no topic: `allow.auto.create.topics` is false, or the client is a producer.
    let asked = client.fetch_metadata(Some(topic), patience);
    let denied = Some(RDKafkaRespErr::RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED);
    let is_denied = asked.is_ok_and(|found| found.topics().iter().any(|found| found.error() == denied));
    Err(match is_denied {
        true => format!("the user has no right on the topic `{topic}`: neither Read nor Write nor Describe"),
        false => format!("the topic `{topic}` does not exist"),
    })
}
