//! A put that waits for its answer.

use super::room::Taken;
use super::under_way::Ticket;
use crate::error::Error;
use crate::gather::Gathered;
use crate::placing::Placed;
use delayq_core::message::Message;
use delayq_core::shard::ShardId;
use delayq_core::verbs::put::PutOutcome;
use std::sync::Arc;
use tokio::sync::oneshot;

/// A put that waits to be sent.
pub(super) struct Waiting {
    pub(super) put: Placed,
    pub(super) answer: oneshot::Sender<Answered>,
    pub(super) handed: Arc<Handed>,
}

/// What became of a put.
pub(super) struct Answered {
    /// The shard to which it was sent last.
    pub(super) shard: ShardId,
    /// The message as it was sent last: a shard of another node gives it another id.
    pub(super) message: Arc<Message>,
    pub(super) answer: Result<PutOutcome, Error>,
}

/// What a hand-over holds until all of its puts are answered, or will not be sent.
pub(super) struct Handed {
    pub(super) _room: Taken,
    pub(super) _ticket: Option<Ticket>,
}

// === impl Waiting ===

impl Gathered for Waiting {
    type Key = ShardId;

    fn key(&self) -> ShardId {
        self.put.place.at()
    }

    fn bytes(&self) -> usize {
        self.put.message.bytes()
    }
}
