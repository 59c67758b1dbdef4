//! One settlement on its way to Redis.

use crate::error::Error;
use crate::gather::Gathered;
use crate::settle::Settlement;
use delayq_core::fate::Fate;
use delayq_core::leased::NextPut;
use delayq_core::shard::ShardId;
use delayq_core::verbs::reserve::Receipt;
use delayq_core::verbs::settle::{Release, Settled};
use tokio::sync::oneshot;

#[derive(Clone, Debug)]
pub(super) enum Settle {
    Ack(Receipt),
    AckAndPut(Box<NextPut>),
    Release(Release),
    Bury(Receipt, String),
}

#[derive(Debug)]
pub(super) struct OpenSettlement {
    pub(super) settle: Settle,
    /// The waiting caller. The message is settled even if the caller is gone.
    pub(super) answer: Option<oneshot::Sender<Result<Settled, Error>>>,
    /// True if an earlier attempt may have been applied.
    pub(super) is_lost: bool,
}

// === impl Settle ===

impl Settle {
    pub(super) fn receipt(&self) -> &Receipt {
        match self {
            Self::Ack(receipt) | Self::Bury(receipt, _) => receipt,
            Self::AckAndPut(next) => &next.receipt,
            Self::Release(release) => &release.receipt,
        }
    }

    pub(super) fn as_call(&self) -> Settlement<'_> {
        match self {
            Self::Ack(receipt) => Settlement::Ack(receipt),
            Self::AckAndPut(next) => Settlement::AckAndPut(next),
            Self::Release(release) => Settlement::Release(release),
            Self::Bury(receipt, reason) => Settlement::Bury(receipt, reason),
        }
    }
}

// === impl OpenSettlement ===

impl OpenSettlement {
    pub(super) fn unattended(settle: Settle) -> Self {
        Self { settle, answer: None, is_lost: false }
    }

    pub(super) fn after(mut self, error: &Error) -> Self {
        self.is_lost |= error.fate() == Fate::Unknown;
        self
    }

    pub(super) fn tell(self, answer: Result<Settled, Error>) {
        match (self.answer, answer) {
            (Some(waiting), answer) => drop(waiting.send(answer)),
            (None, Err(error)) => {
                tracing::warn!(%error, "a message was not settled: it is delivered again when its lease \
                                        expires");
            }
            (None, Ok(_)) => {}
        }
    }
}

impl Gathered for OpenSettlement {
    type Key = ShardId;

    fn key(&self) -> ShardId {
        self.settle.receipt().shard
    }

    fn bytes(&self) -> usize {
        self.settle.as_call().bytes()
    }
}
