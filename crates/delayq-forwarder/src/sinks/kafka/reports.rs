//! Delivery reports: the client's thread puts what each means at its place, as it comes.

use super::words::Words;
use crate::{Blame, Outcome, Outcomes};
use rdkafka::{
    ClientContext,
    error::{KafkaError, RDKafkaErrorCode},
    message::DeliveryResult,
    producer::ProducerContext,
};
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

/// What a producer calls back.
#[derive(Clone, Default)]
pub(super) struct Reports {
    pub(super) words: Words,
}

/// The place of a record's outcome. Dropped without one, the producer ended before it was known.
pub(super) struct Place {
    outcomes: Arc<Outcomes>,
    place: usize,
    /// Whether its route says which partition.
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
    type DeliveryOpaque = Box<Place>;

    fn delivery(&self, result: &DeliveryResult<'_>, place: Box<Place>) {
        match result {
            Ok(_) => {
                self.words.forget();
                place.put(Outcome::Delivered);
            }
            Err((error, _)) => place.failed(error, &self.words),
        }
    }
}

// === impl Place ===

impl Place {
    pub(super) fn new(outcomes: &Arc<Outcomes>, place: usize, chosen: bool) -> Box<Self> {
        Box::new(Self { outcomes: Arc::clone(outcomes), place, chosen, reported: AtomicBool::new(false) })
    }

    pub(super) fn put(&self, outcome: Outcome) {
        self.reported.store(true, Ordering::Relaxed);
        self.outcomes.put(self.place, outcome);
    }

    /// What an error means for its record.
    pub(super) fn failed(&self, error: &KafkaError, words: &Words) {
        self.put(meaning(error, self.chosen, words));
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if !self.reported.load(Ordering::Relaxed) {
            self.put(Outcome::down("the producer was closed"));
        }
    }
}

fn meaning(error: &KafkaError, chosen: bool, words: &Words) -> Outcome {
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
        // Partitions can be added, but those that the topic has take their messages meanwhile.
        Some(RDKafkaErrorCode::UnknownPartition) if chosen => {
            Outcome::Unavailable { reason, retry_after: None, blame: Blame::Message }
        }
        Some(RDKafkaErrorCode::UnknownPartition) => Outcome::failed(reason),
        _ => Outcome::down(words.explain(reason)),
    }
}
