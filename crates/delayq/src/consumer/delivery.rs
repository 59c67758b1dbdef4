//! One message held by a consumer.

use super::leases::Leases;
use super::settlement::Settle;
use super::settling::Settler;
use crate::error::Error;
use delayq_core::envelope::Envelope;
use delayq_core::id::{Group, MessageId, Topic};
use delayq_core::time::{UnixMicros, UnixMillis};
use delayq_core::verbs::reserve::Receipt;
use delayq_core::verbs::settle::{Release, Settled};
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// A message that the holder must settle. If dropped unsettled, it is released with its back-off.
#[must_use = "a delivery that is dropped is released, and comes again"]
#[derive(Debug)]
pub struct Delivery {
    /// Its topic.
    pub topic: Topic,
    /// Its id.
    pub id: MessageId,
    /// When it became ready, on Redis's clock.
    pub ready: UnixMicros,
    /// The message itself; its attempt and delivery count this one.
    pub envelope: Envelope,
    pub(super) held: Option<Held>,
}

/// What settles a delivery.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) receipt: Receipt,
    pub(super) lost: CancellationToken,
    pub(super) leases: Arc<Leases>,
    pub(super) settler: Settler,
}

// === impl Delivery ===

impl Delivery {
    /// The payload, as it was put.
    pub fn payload(&self) -> &[u8] {
        &self.envelope.payload
    }

    /// The producer's headers: names and values.
    pub fn headers(&self) -> &[(String, String)] {
        &self.envelope.headers
    }

    /// Its group.
    pub fn group(&self) -> Option<&Group> {
        self.envelope.group.as_ref()
    }

    /// The number of this attempt, from 1.
    pub fn attempt(&self) -> u16 {
        self.envelope.attempt
    }

    /// When it was due.
    pub fn due(&self) -> UnixMillis {
        self.envelope.due
    }

    /// How late it became ready.
    pub fn lateness(&self) -> Duration {
        self.ready.since(self.envelope.due)
    }

    /// Resolves when the lease was taken back or the message was cancelled: abandon the work.
    pub async fn lost(&self) {
        match &self.held {
            Some(held) => held.lost.cancelled().await,
            None => std::future::pending().await,
        }
    }

    /// Finishes the message: it was delivered. Sent together with other settlements. If Redis cannot be reached, the
    /// ack is repeated and the lease extended until it can. A dropped future is settled all the same.
    ///
    /// # Errors
    /// The lease ran out before Redis could be reached, or Redis refuses: the message returns. With fate *unknown* it
    /// may be finished.
    pub async fn ack(mut self) -> Result<Settled, Error> {
        self.settle(Settle::Ack).await
    }

    /// Finishes the message, like [`Self::ack`], within about 50 ms and together with others, which costs Redis a
    /// fraction. For callers that do nothing with the answer.
    ///
    /// If Redis cannot be reached while the lease lasts, or the process or its runtime ends before, the message returns
    /// when its lease runs out. [`Consumer::stop`](super::Consumer::stop) waits for the acks; those of a dropped consumer
    /// are sent by the runtime that it leaves.
    pub fn ack_later(mut self) {
        if let Some(held) = self.held.take() {
            held.leases.worked(&held.receipt);
            held.settler.ack_later(held.receipt);
        }
    }

    /// Releases the message: it returns after `delay`, or after its back-off; after its last attempt it becomes a dead
    /// letter with the reason.
    ///
    /// # Errors
    /// As [`Self::ack`].
    pub async fn release(mut self, delay: Option<Duration>, reason: &str) -> Result<Settled, Error> {
        let reason = reason.to_owned();
        self.settle(move |receipt| Settle::Release(Release { receipt, delay, keep_attempt: false, reason }))
            .await
    }

    /// Moves the message to the dead letters with the reason: it can never be delivered.
    ///
    /// # Errors
    /// As [`Self::ack`].
    pub async fn bury(mut self, reason: &str) -> Result<Settled, Error> {
        let reason = reason.to_owned();
        self.settle(move |receipt| Settle::Bury(receipt, reason)).await
    }

    /// Releases it without waiting, because no caller will take it.
    pub(super) fn give_back_later(mut self) {
        if let Some(held) = self.held.take() {
            held.leases.worked(&held.receipt);
            held.settler.settle_later(unstarted(held.receipt));
        }
    }

    async fn settle(&mut self, how: impl FnOnce(Receipt) -> Settle) -> Result<Settled, Error> {
        let held = self.held.take().expect("a delivery is settled by the call that consumes it");
        held.settle(how).await
    }
}

impl Drop for Delivery {
    fn drop(&mut self) {
        if let Some(held) = self.held.take() {
            let release = Release {
                receipt: held.receipt.clone(),
                delay: None,
                keep_attempt: false,
                reason: "dropped without being settled".to_owned(),
            };
            held.leases.worked(&held.receipt);
            held.settler.settle_later(Settle::Release(release));
        }
    }
}

// === impl Held ===

impl Held {
    async fn settle(self, how: impl FnOnce(Receipt) -> Settle) -> Result<Settled, Error> {
        self.leases.worked(&self.receipt);
        self.settler.settle(how(self.receipt)).await
    }

    /// Releases what was not started: the attempt does not count.
    pub(super) async fn give_back(self) {
        if let Err(error) = self.settle(unstarted).await {
            tracing::warn!(%error, "a message was not given back: it comes again when its lease runs out");
        }
    }
}

/// How an unstarted message is released.
fn unstarted(receipt: Receipt) -> Settle {
    Settle::Release(Release {
        receipt,
        delay: Some(Duration::ZERO),
        keep_attempt: true,
        reason: String::new(),
    })
}
