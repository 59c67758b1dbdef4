//! What the client says beside its answers: a message that got no ack only says that it waited too long, the reason stands
//! in the client's own words.

use rdkafka::{
    ClientContext,
    error::{KafkaError, RDKafkaErrorCode},
};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The last that a client said, shared with it.
#[derive(Clone, Default)]
pub(super) struct Words(Arc<Mutex<Option<Said>>>);

#[derive(Clone)]
struct Said {
    words: String,
    refused_login: bool,
}

// === impl Words ===

impl Words {
    /// A sentence with what the client said of it.
    pub(super) fn explain(&self, sentence: String) -> String {
        match self.said().as_ref() {
            None => sentence,
            Some(said) => format!("{sentence}: {}", said.words),
        }
    }

    /// Whether the brokers refused the login: a client goes on with the password that it was made with.
    pub(super) fn refused_login(&self) -> bool {
        self.said().as_ref().is_some_and(|said| said.refused_login)
    }

    /// What was said is over: an ack came after it.
    pub(super) fn forget(&self) {
        *self.said() = None;
    }

    fn said(&self) -> MutexGuard<'_, Option<Said>> {
        // It is written by one assignment.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ClientContext for Words {
    fn error(&self, error: KafkaError, reason: &str) {
        let code = error.rdkafka_error_code();
        // That all brokers are down follows the words of each, which say why.
        if code == Some(RDKafkaErrorCode::AllBrokersDown) {
            return;
        }
        let refused_login = code == Some(RDKafkaErrorCode::Authentication);
        *self.said() = Some(Said { words: reason.to_owned(), refused_login });
    }
}
