//! The topics that have to exist, and that the user has to see.

use rdkafka::consumer::{Consumer, ConsumerContext};
use rdkafka::metadata::Metadata;
use rdkafka::types::RDKafkaRespErr;
use std::time::Duration;

/// Checks that a description of all topics has these.
pub(super) fn exist<X: ConsumerContext>(
    metadata: &Metadata,
    topics: [&str; 2],
    (consumer, patience): (&impl Consumer<X>, Duration),
) -> Result<(), String> {
    let is_missing = |topic: &&str| metadata.topics().iter().all(|known| known.name() != *topic);
    let Some(missing) = topics.into_iter().find(is_missing) else { return Ok(()) };
    // This query creates no topic: `allow.auto.create.topics` is false.
    let asked = consumer.fetch_metadata(Some(missing), patience);
    let denied = Some(RDKafkaRespErr::RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED);
    let is_denied = asked.is_ok_and(|found| found.topics().iter().any(|topic| topic.error() == denied));
    Err(match is_denied {
        true => {
            format!("the user has no right on the topic `{missing}`: neither Read nor Write nor Describe")
        }
        false => format!("the topic `{missing}` does not exist"),
    })
}
