//! Dead records: published with acks from all replicas in sync.

use super::config::KafkaIntakeConfig;
use super::ticket::KafkaTicket;
use crate::intake::broker::{Buried, Dead};
use delayq_service::brokers::KafkaWords;
use futures_util::future::join_all;
use rdkafka::config::FromClientConfigAndContext;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{FutureProducer, FutureRecord};
use std::time::Duration;

/// Maximum time for an ack.
const PATIENCE: Duration = Duration::from_secs(10);

/// The producer of dead records.
pub(super) struct Burial {
    topic: String,
    producer: FutureProducer<KafkaWords>,
    words: KafkaWords,
}

// === impl Burial ===

impl Burial {
    /// Connects nothing yet.
    pub(super) fn new(config: &KafkaIntakeConfig, topic: &str) -> Result<Self, String> {
        let mut settings = config.access().settings("delayq-compensator")?;
        settings
            .set("acks", "all")
            .set("enable.idempotence", "true")
            // Of a batch with a record that is too large the broker refuses all.
            .set("batch.num.messages", "1")
            .set("message.max.bytes", "1000000000")
            .set("message.timeout.ms", PATIENCE.as_millis().to_string());
        let words = KafkaWords::default();
        let producer = FutureProducer::from_config_and_context(&settings, words.clone());
        Ok(Self { topic: topic.to_owned(), producer: producer.map_err(|error| error.to_string())?, words })
    }

    /// Publishes dead records together.
    pub(super) async fn publish(&self, dead: &[Dead<'_, KafkaTicket>]) -> Vec<Buried> {
        let sends = dead.iter().map(|dead| async move {
            let headers = dead.headers().fold(OwnedHeaders::new(), |headers, (name, value)| {
                headers.insert(Header { key: name, value: Some(&value) })
            });
            let mut record =
                FutureRecord::<[u8], [u8]>::to(&self.topic).payload(&dead.record.body).headers(headers);
            if let Some(key) = &dead.ticket.key {
                record = record.key(key);
            }
            // A full queue delays the call.
            let sent = self.producer.send(record, PATIENCE).await.map(drop);
            sent.map_err(|(error, _)| self.refused(&error))
        });
        join_all(sends).await
    }

    fn refused(&self, error: &KafkaError) -> String {
        let is_denied = error.rdkafka_error_code() == Some(RDKafkaErrorCode::TopicAuthorizationFailed);
        let missing = match is_denied || self.words.denied_write() {
            true => " (the user has no right Write on it)",
            false => "",
        };
        self.words.explain(format!("the dead topic `{}`{missing}: {error}", self.topic))
    }
}
