//! What a sink is: the one contract between the forwarder and every kind of destination.

use crate::{Answers, Parcel};
use async_trait::async_trait;
use std::sync::Arc;
use std::time::Duration;

/// A kind of destination, connected to one server.
///
/// # Contract
/// - `deliver` puts one outcome for each parcel at its index as soon as it is known: the forwarder settles a delivered
///   parcel while others of the call still wait. [`Outcome::Delivered`] means that the destination has confirmed it as
///   durably as it can; a confirm may have no other outcome.
/// - A sink never retries; the forwarder does. A sink reconnects after its connection broke.
/// - A sink keeps its own time: a parcel that cannot be sent within the `timeout` of its section is unsent, and one without
///   an answer within `timeout` after it was sent is unavailable.
/// - Parcels of one call may have different destinations; the failure of one is not the failure of the others.
/// - Calls may overlap. A call may be dropped at any await: outcomes that it had put count; the fate of other parcels is
///   unknown, and the forwarder sends them again.
/// - `check` changes nothing at the destination. It names every setting that loses messages.
/// - After `close` everything confirmed is stored, and nothing more is sent.
#[async_trait]
pub trait Sink: Send + Sync {
    /// Checks the server, and a destination if it is known before there is a message. Returns warnings: what can lose
    /// messages, but may be intended.
    ///
    /// # Errors
    /// The destination must not be used, or cannot be checked now.
    async fn check(&self, destination: Option<&str>) -> Result<Vec<String>, CheckError>;

    /// Delivers parcels, and puts the outcome of each at its index.
    async fn deliver(&self, parcels: &[Parcel], outcomes: &Arc<Outcomes>);

    /// Flushes and closes. Called once, after the last delivery.
    ///
    /// # Errors
    /// What could not be flushed, in a sentence. None of it was reported as delivered.
    async fn close(&self) -> Result<(), String> {
        Ok(())
    }
}

/// Why a destination cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CheckError {
    /// It would lose messages, or can never work as it is configured.
    #[error("{0}")]
    Refused(String),
    /// It cannot be reached, or does not exist yet.
    #[error("{0}")]
    Unreachable(String),
}

/// What became of one parcel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Confirmed.
    Delivered,
    /// It can never be delivered as it is.
    Rejected {
        /// Why, in the destination's own words.
        reason: String,
    },
    /// It may be delivered later. Whether it arrived after all may be unknown.
    Unavailable {
        /// Why, in the destination's own words.
        reason: String,
        /// When the destination wants to be asked again, where it said so.
        retry_after: Option<Duration>,
        /// What to blame, as far as the answer tells.
        blame: Blame,
    },
}

/// The outcomes of one call that are known so far.
pub type Outcomes = Answers<Outcome>;

/// What a failed delivery is to be blamed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blame {
    /// Nothing: it was not sent.
    Nobody,
    /// The destination as a whole: it cannot be reached, or refuses everyone.
    Destination,
    /// The destination, or a message that breaks it: it was sent, and the connection broke or stayed silent.
    Silence,
    /// This message: others would have been accepted.
    Message,
    /// The answer does not tell.
    Unclear,
}

// === impl Outcome ===

impl Outcome {
    /// The destination as a whole cannot accept it now.
    #[must_use]
    pub fn down(reason: impl Into<String>) -> Self {
        Self::Unavailable { reason: reason.into(), retry_after: None, blame: Blame::Destination }
    }

    /// It was sent, and the connection broke or stayed silent.
    #[must_use]
    pub fn silent(reason: impl Into<String>) -> Self {
        Self::Unavailable { reason: reason.into(), retry_after: None, blame: Blame::Silence }
    }

    /// It was not sent.
    #[must_use]
    pub fn unsent(reason: impl Into<String>) -> Self {
        Self::Unavailable { reason: reason.into(), retry_after: None, blame: Blame::Nobody }
    }

    /// It failed, and the answer does not tell why.
    #[must_use]
    pub fn failed(reason: impl Into<String>) -> Self {
        Self::Unavailable { reason: reason.into(), retry_after: None, blame: Blame::Unclear }
    }

    /// It can never be delivered.
    #[must_use]
    pub fn rejected(reason: impl Into<String>) -> Self {
        Self::Rejected { reason: reason.into() }
    }

    /// The word of logs and metrics.
    #[must_use]
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Delivered => "delivered",
            Self::Rejected { .. } => "rejected",
            Self::Unavailable { .. } => "unavailable",
        }
    }
}
