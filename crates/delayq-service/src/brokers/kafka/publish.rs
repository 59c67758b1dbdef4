//! Producing with acks: the client's thread stores each outcome at its index on arrival.

use super::KafkaWords;
use crate::brokers::{Blame, Outcome, Outcomes};
use rdkafka::config::FromClientConfigAndContext;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{DeliveryResult, OwnedHeaders};
use rdkafka::producer::{BaseRecord, Producer, ProducerContext, ThreadedProducer};
use rdkafka::{ClientConfig, ClientContext};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// A producer whose records are delivered when all in-sync replicas have acked.
#[derive(Clone)]
pub struct KafkaPublisher {
    producer: ThreadedProducer<Reports>,
    words: KafkaWords,
}

/// A record to be produced.
#[derive(Debug)]
pub struct KafkaLetter<'a> {
    /// The topic.
    pub topic: &'a str,
    /// The key.
    pub key: Option<&'a [u8]>,
    /// The partition; `None`: by the key.
    pub partition: Option<i32>,
    /// The headers.
    pub headers: OwnedHeaders,
    /// The value.
    pub body: &'a [u8],
    /// The timestamp in milliseconds; `None`: now.
    pub at_ms: Option<i64>,
}

#[derive(Clone, Default)]
struct Reports {
    words: KafkaWords,
}

/// The slot for the outcome of a record. Dropping the slot without an outcome means that the producer ended first.
struct Pending {
    outcomes: Arc<Outcomes>,
    index: usize,
    /// Whether the partition was chosen.
    chosen: bool,
    reported: AtomicBool,
}

// === impl KafkaPublisher ===

impl KafkaPublisher {
    /// Connects nothing, but validates the settings, to which acks from all replicas in sync are added.
    ///
    /// # Errors
    /// The settings are not understood.
    pub fn new(mut settings: ClientConfig) -> Result<Self, String> {
        settings.set("acks", "all").set("enable.idempotence", "true");
        let reports = Reports::default();
        let words = reports.words.clone();
        let producer = ThreadedProducer::from_config_and_context(&settings, reports);
        Ok(Self { producer: producer.map_err(|error| error.to_string())?, words })
    }

    /// Produces a record, and stores the outcome at its index: an immediate refusal at once.
    pub fn publish(&self, letter: KafkaLetter<'_>, outcomes: &Arc<Outcomes>, index: usize) {
        let KafkaLetter { topic, key, partition, headers, body, at_ms } = letter;
        let pending = Pending::new(outcomes, index, partition.is_some());
        let mut record =
            BaseRecord::<[u8], [u8], _>::with_opaque_to(topic, pending).payload(body).headers(headers);
        (record.key, record.partition) = (key, partition);
        if let Some(at_ms) = at_ms {
            record = record.timestamp(at_ms);
        }
        if let Err((error, record)) = self.producer.send(record) {
            record.delivery_opaque.failed(&error, &self.words);
        }
    }

    /// True if this producer failed for good, by mismatched sequence numbers, or if its password was refused.
    #[must_use]
    pub fn is_useless(&self) -> bool {
        if let Some((code, why)) = self.producer.client().fatal_error() {
            tracing::warn!(?code, why, "the Kafka producer failed permanently: creating a new one");
            return true;
        }
        self.words.refused_login()
    }

    /// The client, for requests that block.
    #[must_use]
    pub fn client(&self) -> &rdkafka::client::Client<impl ClientContext> {
        self.producer.client()
    }

    /// The client's last message.
    #[must_use]
    pub const fn words(&self) -> &KafkaWords {
        &self.words
    }

    /// Waits for the acks of all records.
    ///
    /// # Errors
    /// Some acks are missing.
    pub fn flush(&self, patience: Duration) -> Result<(), String> {
        self.producer.flush(patience).map_err(|error| error.to_string())
    }
}

// === impl Reports ===

impl ClientContext for Reports {
    fn error(&self, error: KafkaError, reason: &str) {
        self.words.error(error, reason);
    }
}

impl ProducerContext for Reports {
    type DeliveryOpaque = Box<Pending>;

    fn delivery(&self, result: &DeliveryResult<'_>, pending: Box<Pending>) {
        match result {
            Ok(_) => {
                self.words.forget();
                pending.put(Outcome::Delivered);
            }
            Err((error, _)) => pending.failed(error, &self.words),
        }
    }
}

// === impl Pending ===

impl Pending {
    fn new(outcomes: &Arc<Outcomes>, index: usize, chosen: bool) -> Box<Self> {
        Box::new(Self { outcomes: Arc::clone(outcomes), index, chosen, reported: AtomicBool::new(false) })
    }

    fn put(&self, outcome: Outcome) {
        self.reported.store(true, Ordering::Relaxed);
        self.outcomes.put(self.index, outcome);
    }

    fn failed(&self, error: &KafkaError, words: &KafkaWords) {
        self.put(meaning(error, self.chosen, words));
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        if !self.reported.load(Ordering::Relaxed) {
            self.put(Outcome::down("the producer was closed"));
        }
    }
}

fn meaning(error: &KafkaError, chosen: bool, words: &KafkaWords) -> Outcome {
    let reason = error.to_string();
    match error.rdkafka_error_code() {
        Some(
            RDKafkaErrorCode::MessageSizeTooLarge
            | RDKafkaErrorCode::InvalidMessageSize
            | RDKafkaErrorCode::InvalidMessage
            | RDKafkaErrorCode::InvalidRecord
            | RDKafkaErrorCode::InvalidTopic
            | RDKafkaErrorCode::PolicyViolation,
        ) => Outcome::Rejected { reason },
        Some(RDKafkaErrorCode::UnknownTopic | RDKafkaErrorCode::UnknownTopicOrPartition) => {
            Outcome::failed(reason)
        }
        Some(RDKafkaErrorCode::TopicAuthorizationFailed) => Outcome::failed(format!("{NO_WRITE}: {reason}")),
        // Partitions can be added, and existing partitions accept messages meanwhile.
        Some(RDKafkaErrorCode::UnknownPartition) if chosen => {
            Outcome::Unavailable { reason, retry_after: None, blame: Blame::Message }
        }
        Some(RDKafkaErrorCode::UnknownPartition) => Outcome::failed(reason),
        _ if words.denied_write() => Outcome::down(words.explain(format!("{NO_WRITE}: {reason}"))),
        _ => Outcome::down(words.explain(reason)),
    }
}

const NO_WRITE: &str = "the user has no right Write on it";
