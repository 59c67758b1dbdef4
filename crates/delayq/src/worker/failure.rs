//! The failure of a handler, and the fate of the message.

use delayq_core::reason;
use std::error::Error;
use std::time::Duration;

/// The failure of a handler, and the fate of the message. Any error becomes a failure by `?`: the message is then
/// retried after the back-off, as long as attempts are left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    pub(super) reason: String,
    pub(super) then: Then,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Then {
    /// Without a delay, after the back-off.
    Retry(Option<Duration>),
    Bury,
}

// === impl Failure ===

impl Failure {
    /// Retries the message after the back-off; after the last attempt, the message becomes a dead letter with the
    /// reason.
    pub fn retry(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), then: Then::Retry(None) }
    }

    /// Like [`Self::retry`], after this delay.
    pub fn retry_after(delay: Duration, reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), then: Then::Retry(Some(delay)) }
    }

    /// Makes the message a dead letter with the reason now: no attempt can succeed.
    pub fn bury(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), then: Then::Bury }
    }
}

impl<E: Error> From<E> for Failure {
    /// Takes the text of the error and of all sources.
    fn from(error: E) -> Self {
        Self::retry(reason::of_error(&error))
    }
}
