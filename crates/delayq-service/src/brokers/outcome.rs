//! The outcome of one message that was sent to a destination, in the same words for every sink and every dead destination.

use super::Answers;
use std::time::Duration;

/// The outcome of one message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Confirmed.
    Delivered,
    /// Never deliverable in this form.
    Rejected {
        /// The reason, in the destination's own words.
        reason: String,
    },
    /// May be delivered later. Whether the message arrived may be unknown.
    Unavailable {
        /// The reason, in the destination's own words.
        reason: String,
        /// Retry delay requested by the destination.
        retry_after: Option<Duration>,
        /// The blame, as far as the answer tells.
        blame: Blame,
    },
}

/// The outcomes of one call known so far.
pub type Outcomes = Answers<Outcome>;

/// The blame for a failed delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blame {
    /// Nothing: the message was not sent.
    Nobody,
    /// The destination as a whole: unreachable, or refusing every message.
    Destination,
    /// The destination, or a message that breaks the destination: after sending, the connection broke or stayed silent.
    Silence,
    /// This message alone.
    Message,
    /// Unknown from the answer.
    Unclear,
}

// === impl Outcome ===

impl Outcome {
    /// Unavailable: the destination as a whole cannot accept messages now.
    #[must_use]
    pub fn down(reason: impl Into<String>) -> Self {
        Self::Unavailable { reason: reason.into(), retry_after: None, blame: Blame::Destination }
    }

    /// Unavailable: after sending, the connection broke or stayed silent.
    #[must_use]
    pub fn silent(reason: impl Into<String>) -> Self {
        Self::Unavailable { reason: reason.into(), retry_after: None, blame: Blame::Silence }
    }

    /// Unavailable: not sent.
    #[must_use]
    pub fn unsent(reason: impl Into<String>) -> Self {
        Self::Unavailable { reason: reason.into(), retry_after: None, blame: Blame::Nobody }
    }

    /// Unavailable: failed for a reason that the answer does not tell.
    #[must_use]
    pub fn failed(reason: impl Into<String>) -> Self {
        Self::Unavailable { reason: reason.into(), retry_after: None, blame: Blame::Unclear }
    }

    /// Rejected: never deliverable.
    #[must_use]
    pub fn rejected(reason: impl Into<String>) -> Self {
        Self::Rejected { reason: reason.into() }
    }

    /// The word used in logs and metrics.
    #[must_use]
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Delivered => "delivered",
            Self::Rejected { .. } => "rejected",
            Self::Unavailable { .. } => "unavailable",
        }
    }
}
