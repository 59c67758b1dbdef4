//! The Kafka client's log messages: a record without an ack only reports a timeout, and the client's message tells why.

use rdkafka::ClientContext;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The last message of a client, shared with the client.
#[derive(Clone, Debug, Default)]
pub struct KafkaWords(Arc<Mutex<Option<Explanation>>>);

#[derive(Clone, Debug)]
struct Explanation {
    words: String,
    code: Option<RDKafkaErrorCode>,
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
        self.code() == Some(RDKafkaErrorCode::Authentication)
    }

    /// True if the brokers denied the user a topic, or the producer id that only a user with a right to write gets.
    #[must_use]
    pub fn denied_write(&self) -> bool {
        use RDKafkaErrorCode::{ClusterAuthorizationFailed, TopicAuthorizationFailed};
        matches!(self.code(), Some(TopicAuthorizationFailed | ClusterAuthorizationFailed))
    }

    fn code(&self) -> Option<RDKafkaErrorCode> {
        self.said().as_ref().and_then(|said| said.code)
    }

    /// Discards the message after an ack.
    pub fn forget(&self) {
        *self.said() = None;
    }

    fn said(&self) -> MutexGuard<'_, Option<Explanation>> {
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
        *self.said() = Some(Explanation { words: reason.to_owned(), code });
    }
}
