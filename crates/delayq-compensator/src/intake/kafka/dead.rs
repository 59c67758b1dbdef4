//! Dead records: published with acks from all replicas in sync.

use super::config::KafkaIntakeConfig;
use super::ticket::KafkaTicket;
use crate::intake::broker::{Buried, Dead, buried};
use delayq_service::brokers::{Answers, KafkaLetter, KafkaPublisher};
use rdkafka::message::{Header, OwnedHeaders};
use std::time::Duration;

/// Maximum time for an ack.
const PATIENCE: Duration = Duration::from_secs(10);

/// The producer of dead records. Connects nothing yet.
pub(super) fn producer(config: &KafkaIntakeConfig) -> Result<KafkaPublisher, String> {
    let mut settings = config.access.settings("delayq-compensator")?;
    settings
        // Of a batch with a record that is too large the broker refuses all.
        .set("batch.num.messages", "1")
        .set("message.max.bytes", "1000000000")
        .set("message.timeout.ms", PATIENCE.as_millis().to_string());
    KafkaPublisher::new(settings)
}

/// Publishes dead records together.
pub(super) async fn publish(
    producer: &KafkaPublisher,
    topic: &str,
    dead: &[Dead<'_, KafkaTicket>],
) -> Vec<Buried> {
    let outcomes = Answers::new(dead.len());
    for (index, dead) in dead.iter().enumerate() {
        let headers = dead.headers().fold(OwnedHeaders::new(), |headers, (name, value)| {
            headers.insert(Header { key: name, value: Some(&value) })
        });
        let (key, body) = (dead.ticket.key.as_deref(), dead.record.body.as_slice());
        producer.publish(
            KafkaLetter { topic, key, partition: None, headers, body, at_ms: None },
            &outcomes,
            index,
        );
    }
    outcomes.complete().await;
    buried(&outcomes, &format!("the dead topic `{topic}`"))
}
