//! The Kafka client's log messages: a record without an ack only reports a timeout, and the client's message tells why.

use rdkafka::ClientContext;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The last message of a client, shared with the client.
#[derive(Clone, Debug, Default)]
pub struct KafkaWords(Arc<Mutex<Option<Said>>>);

#[derive(Clone, Debug)]
struct Said {
    words: String,
    refused_login: bool,
}

// === impl KafkaWords ===

impl KafkaWords {
    /// Adds the client's last message to a sentence.
    #[must_use]
    pub fn explain(&self, sentence: String) -> String {
        match self.said().as_ref() {
            None => sentence,
            Some(said) => format!("{sentence}: {}", said.words),
        }
    }

    /// True if the brokers refused the login: a client keeps its original password.
    #[must_use]
    pub fn refused_login(&self) -> bool {
        self.said().as_ref().is_some_and(|said| said.refused_login)
    }

    /// Discards the message after an ack.
    pub fn forget(&self) {
        *self.said() = None;
    }

    fn said(&self) -> MutexGuard<'_, Option<Said>> {
        // Each change is one assignment.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ClientContext for KafkaWords {
    fn error(&self, error: KafkaError, reason: &str) {
        let code = error.rdkafka_error_code();
        // "All brokers down" follows the message of each broker, which has the cause.
        if code == Some(RDKafkaErrorCode::AllBrokersDown) {
            return;
        }
        let refused_login = code == Some(RDKafkaErrorCode::Authentication);
        *self.said() = Some(Said { words: reason.to_owned(), refused_login });
    }
}
