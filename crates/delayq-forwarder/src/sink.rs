//! The contract between the forwarder and every kind of destination.

use crate::Parcel;
use async_trait::async_trait;
use delayq_service::brokers::Outcomes;
use std::sync::Arc;

/// A kind of destination, connected to one server.
///
/// # Contract
/// - `deliver` stores one outcome for each parcel at its index as soon as known: the forwarder settles a delivered
///   parcel while others of the call still wait. [`Delivered`](delayq_service::brokers::Outcome::Delivered) means that the destination has confirmed the
///   parcel as durably as the destination can; a confirm may have no other outcome.
/// - The forwarder retries; a sink never does. A sink reconnects after its connection broke.
/// - A sink keeps its own time: a parcel that cannot be sent within the `timeout` of its section is unsent, and a
///   parcel without an answer within `timeout` after sending is unavailable.
/// - Parcels of one call may have different destinations; a failing destination does not fail the other parcels.
/// - Calls may overlap. A call may be dropped at any await: stored outcomes count; the fate of other parcels is
///   unknown, and the forwarder sends these again.
/// - `check` changes nothing at the destination, and names every setting that loses messages.
/// - After `close` everything confirmed is stored, and nothing more is sent.
#[async_trait]
pub trait Sink: Send + Sync {
    /// Checks the server, and a destination if known without a message. Returns warnings about settings that can lose
    /// messages, possibly on purpose.
    ///
    /// # Errors
    /// The destination is unsafe, or cannot be checked now.
    async fn check(&self, destination: Option<&str>) -> Result<Vec<String>, CheckError>;

    /// Delivers parcels, and stores the outcome of each at its index.
    async fn deliver(&self, parcels: &[Parcel], outcomes: &Arc<Outcomes>);

    /// Flushes and closes. Called once, after the last delivery.
    ///
    /// # Errors
    /// The unflushed data, in a sentence. No part of that was reported as delivered.
    async fn close(&self) -> Result<(), String> {
        Ok(())
    }
}

/// Why a destination cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CheckError {
    /// The destination would lose messages, or can never work as configured.
    #[error("{0}")]
    Refused(String),
    /// The destination cannot be reached, or does not exist yet.
    #[error("{0}")]
    Unreachable(String),
}
