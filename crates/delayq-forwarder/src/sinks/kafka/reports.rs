//! Delivery reports: the client's thread stores each outcome at its index on arrival.

use crate::{Blame, Outcome, Outcomes};
use delayq_service::brokers::KafkaWords;
use rdkafka::ClientContext;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::DeliveryResult;
use rdkafka::producer::ProducerContext;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

#[derive(Clone, Default)]
pub(super) struct Reports {
    pub(super) words: KafkaWords,
}

/// The slot for the outcome of a record. Dropping the slot without an outcome means that the producer ended first.
pub(super) struct Pending {
    outcomes: Arc<Outcomes>,
    index: usize,
    /// Whether the route chose the partition.
    chosen: bool,
    reported: AtomicBool,
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
    pub(super) fn new(outcomes: &Arc<Outcomes>, index: usize, chosen: bool) -> Box<Self> {
        Box::new(Self { outcomes: Arc::clone(outcomes), index, chosen, reported: AtomicBool::new(false) })
    }

    pub(super) fn put(&self, outcome: Outcome) {
        self.reported.store(true, Ordering::Relaxed);
        self.outcomes.put(self.index, outcome);
    }

    pub(super) fn failed(&self, error: &KafkaError, words: &KafkaWords) {
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
        Some(
            RDKafkaErrorCode::UnknownTopic
            | RDKafkaErrorCode::UnknownTopicOrPartition
            | RDKafkaErrorCode::TopicAuthorizationFailed,
        ) => Outcome::failed(reason),
        // Partitions can be added, and existing partitions accept messages meanwhile.
        Some(RDKafkaErrorCode::UnknownPartition) if chosen => {
            Outcome::Unavailable { reason, retry_after: None, blame: Blame::Message }
        }
        Some(RDKafkaErrorCode::UnknownPartition) => Outcome::failed(reason),
        _ => Outcome::down(words.explain(reason)),
    }
}
