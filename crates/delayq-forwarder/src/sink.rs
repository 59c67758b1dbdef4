//! What a sink is: the one contract between the forwarder and every kind of destination.

use crate::{Answers, Parcel};
use async_trait::async_trait;
use std::{sync::Arc, time::Duration};

/// A kind of destination, connected to one server.
///
/// # Contract
/// - `deliver` puts one outcome for each parcel at its place, as soon as it is known: the forwarder settles a parcel that
///   was delivered while its neighbours still wait. [`Outcome::Delivered`] means that the destination has confirmed it as
///   durably as it can confirm anything; no other answer may come from a confirm.
/// - A sink never tries again: the forwarder does. It reconnects where its connection is broken.
/// - A sink keeps its own time: a parcel whose turn to be sent has not come within the `timeout` of its section is unsent,
///   and one that has no answer so long after it was sent is unavailable.
/// - Parcels of one call may have different destinations; the fault of one is not the fault of its neighbours.
/// - Calls may overlap. A call may be dropped where it waits; what it had put counts, what else it had sent is unknown, and
///   the forwarder sends it again.
/// - `check` changes nothing at the destination. It names every setting that loses messages.
/// - After `close` everything confirmed is where it belongs, and nothing is sent any more.
#[async_trait]
pub trait Sink: Send + Sync {
    /// The kind, as the configuration calls it.
    fn kind(&self) -> &'static str;

    /// Looks at the server, and at a destination where it is known before there is a message. Gives back warnings:
    /// what can lose messages, but may be meant.
    ///
    /// # Errors
    /// The destination must not be used, or cannot be looked at now.
    async fn check(&self, destination: Option<&str>) -> Result<Vec<String>, CheckError>;

    /// Delivers parcels, and puts what becomes of each at its place.
    async fn deliver(&self, parcels: &[Parcel], outcomes: &Arc<Outcomes>);

    /// Flushes and closes. Called once, after the last delivery.
    ///
    /// # Errors
    /// What could not be flushed, in a sentence. All of it had been answered as not delivered.
    async fn close(&self) -> Result<(), String>;
}

/// Why a destination cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CheckError {
    /// It would lose messages, or can never work as it is configured.
    #[error("{0}")]
    Refused(String),
    /// It cannot be reached, or is not there yet.
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
        /// Whose fault it is, as far as the answer tells.
        blame: Blame,
    },
}

/// What became of the parcels of one call, as far as it is known.
pub type Outcomes = Answers<Outcome>;

/// Whose fault a failed delivery is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blame {
    /// Nobody's: it was not sent.
    Nobody,
    /// The destination's as a whole: it cannot be reached, or refuses everyone.
    Destination,
    /// The destination's, or that of a message which breaks it: it was sent, and the answer is a broken connection, or none.
    Silence,
    /// This message's: others would have passed.
    Message,
    /// The answer does not tell.
    Unclear,
}

// === impl Outcome ===

impl Outcome {
    /// The destination as a whole cannot take it now.
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

    /// It failed, and the answer does not tell whose fault it is.
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
