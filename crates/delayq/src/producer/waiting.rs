//! A put that waits for an answer.

use super::byte_budget::Taken;
use super::under_way::Ticket;
use crate::error::Error;
use crate::gather::Gathered;
use crate::placing::Placed;
use delayq_core::message::Message;
use delayq_core::shard::ShardId;
use delayq_core::verbs::put::PutOutcome;
use std::sync::Arc;
use tokio::sync::oneshot;

pub(super) struct Waiting {
    pub(super) put: Placed,
    pub(super) answer: oneshot::Sender<Answered>,
    pub(super) handed: Arc<Handed>,
}

pub(super) struct Answered {
    pub(super) shard: ShardId,
    /// The message of the last attempt: a shard of another node changes the id.
    pub(super) message: Arc<Message>,
    pub(super) answer: Result<PutOutcome, Error>,
}

/// The taken bytes and the names of puts that were queued together, until all of these puts are answered or dropped.
pub(super) struct Handed {
    pub(super) _taken: Taken,
    pub(super) _ticket: Option<Ticket>,
}

// === impl Waiting ===

impl Gathered for Waiting {
    type Key = ShardId;

    fn key(&self) -> ShardId {
        self.put.place.at()
    }

    fn bytes(&self) -> usize {
        self.put.bytes()
    }
}
