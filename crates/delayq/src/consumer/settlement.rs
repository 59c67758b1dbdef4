//! One settlement on its way to Redis.

use crate::error::Error;
use crate::gather::Gathered;
use delayq_core::fate::Fate;
use delayq_core::script::Verb;
use delayq_core::shard::ShardId;
use delayq_core::verbs::reserve::Receipt;
use delayq_core::verbs::settle::{Release, Settled};
use tokio::sync::oneshot;

/// How a message is settled.
#[derive(Clone, Debug)]
pub(super) enum Settle {
    Ack(Receipt),
    Release(Release),
    Bury(Receipt, String),
}

/// A settlement that Redis has not confirmed.
#[derive(Debug)]
pub(super) struct Open {
    pub(super) settle: Settle,
    /// The waiting caller, who may be gone: it is settled all the same.
    pub(super) answer: Option<oneshot::Sender<Result<Settled, Error>>>,
    /// An earlier try may have been applied.
    pub(super) is_lost: bool,
}

// === impl Settle ===

impl Settle {
    pub(super) fn receipt(&self) -> &Receipt {
        match self {
            Self::Ack(receipt) | Self::Bury(receipt, _) => receipt,
            Self::Release(release) => &release.receipt,
        }
    }

    /// The script that does it.
    pub(super) const fn verb(&self) -> Verb {
        match self {
            Self::Ack(_) => Verb::Ack,
            Self::Release(_) => Verb::Release,
            Self::Bury(..) => Verb::Bury,
        }
    }

    pub(super) const fn as_release(&self) -> Option<&Release> {
        match self {
            Self::Release(release) => Some(release),
            _ => None,
        }
    }

    pub(super) fn as_bury(&self) -> Option<(&Receipt, &str)> {
        match self {
            Self::Bury(receipt, reason) => Some((receipt, reason)),
            _ => None,
        }
    }
}

// === impl Open ===

impl Open {
    /// A settlement without a waiting caller.
    pub(super) fn unattended(settle: Settle) -> Self {
        Self { settle, answer: None, is_lost: false }
    }

    /// The same after a try that failed.
    pub(super) fn after(mut self, error: &Error) -> Self {
        self.is_lost |= error.fate() == Fate::Unknown;
        self
    }

    pub(super) fn tell(self, answer: Result<Settled, Error>) {
        match (self.answer, answer) {
            (Some(waiting), answer) => drop(waiting.send(answer)),
            (None, Err(error)) => {
                tracing::warn!(%error, "a message was not settled: it comes again when its lease runs out");
            }
            (None, Ok(_)) => {}
        }
    }
}

impl Gathered for Open {
    type Key = ShardId;

    fn key(&self) -> ShardId {
        self.settle.receipt().shard
    }

    /// A receipt has at most about 150 bytes.
    fn bytes(&self) -> usize {
        256 + match &self.settle {
            Settle::Ack(_) => 0,
            Settle::Release(release) => release.reason.len(),
            Settle::Bury(_, reason) => reason.len(),
        }
    }
}
