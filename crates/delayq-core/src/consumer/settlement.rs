//! One settlement of what was reserved, on its way to Redis.

use crate::{Error, Fate, Receipt, Release, Settled, gather::Weighed};
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
    /// Who waits for it; they may be gone: it is settled all the same.
    pub(super) answer: Option<oneshot::Sender<Result<Settled, Error>>>,
    /// An earlier try may have been carried out.
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
}

// === impl Open ===

impl Open {
    /// One for which nobody waits.
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

impl Weighed for Open {
    /// A receipt is some 150 bytes at most.
    fn bytes(&self) -> usize {
        256 + match &self.settle {
            Settle::Ack(_) => 0,
            Settle::Release(release) => release.reason.len(),
            Settle::Bury(_, reason) => reason.len(),
        }
    }
}
