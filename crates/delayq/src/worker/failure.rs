//! Why a handler has not finished its message, and what becomes of that.

use delayq_core::reason;
use std::error::Error;
use std::time::Duration;

/// Why a handler has not finished its message, and what becomes of that. Made of any error by `?`: then the message is tried
/// again after its back-off, as long as it has attempts left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    pub(super) reason: String,
    pub(super) then: Then,
}

/// What becomes of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Then {
    /// It is tried again after this delay, or after its back-off.
    Retry(Option<Duration>),
    /// It becomes a dead letter.
    Bury,
}

// === impl Failure ===

impl Failure {
    /// The message is tried again after its back-off; after its last attempt it becomes a dead letter with the reason.
    pub fn retry(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), then: Then::Retry(None) }
    }

    /// As [`Self::retry`], after this delay.
    pub fn retry_after(delay: Duration, reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), then: Then::Retry(Some(delay)) }
    }

    /// The message becomes a dead letter with the reason now: no attempt can succeed.
    pub fn bury(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), then: Then::Bury }
    }
}

impl<E: Error> From<E> for Failure {
    /// The error's text and those of its sources.
    fn from(error: E) -> Self {
        Self::retry(reason::of_error(&error))
    }
}
