//! One message held by a consumer.

use super::leases::Leases;
use super::received::Received;
use super::settlement::Settle;
use super::settling::{AnswerReceiver, Settler};
use crate::error::Error;
use delayq_core::id::{Group, MessageId, Topic};
use delayq_core::leased::Leased;
use delayq_core::message::Message;
use delayq_core::verbs::reserve::Receipt;
use delayq_core::verbs::settle::{Release, Settled};
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// A message that the holder must settle. An unsettled message is released with a back-off when dropped.
///
/// [`Self::ack`], [`Self::ack_and_put`], [`Self::release`] and [`Self::bury`] hand the settlement over when called. The returned futures only
/// wait for the answer, so dropping a future, even before the first poll, changes nothing.
#[must_use = "a dropped delivery is released and delivered again"]
#[derive(Debug)]
pub struct Delivery {
    pub(super) received: Received,
    pub(super) held: Held,
}

/// The right to settle a delivery. A drop gives the message back.
#[derive(Debug)]
pub(crate) struct Held {
    /// `None`: settled.
    receipt: Option<Receipt>,
    pub(crate) lost: CancellationToken,
    leases: Arc<Leases>,
    settler: Settler,
    dropped: Dropped,
}

#[derive(Clone, Copy, Debug)]
enum Dropped {
    /// A failed attempt of the application.
    Failed,
    /// Nobody's fault: the attempt does not count.
    GivenBack,
}

// === impl Delivery ===

impl Delivery {
    /// Resolves when the lease was taken back or the message was cancelled: abandon the work. Cancel safe.
    pub async fn lost(&self) {
        self.held.lost.cancelled().await;
    }

    /// Finishes the delivered message. Sent together with other settlements. While Redis cannot be reached, the ack is
    /// repeated and the lease extended.
    ///
    /// # Errors
    /// The lease ran out before Redis could be reached, or Redis refuses: the message returns. With fate *unknown* the
    /// message may be finished.
    pub fn ack(self) -> impl Future<Output = Result<Settled, Error>> + Send + use<> {
        answer(self.held.ack())
    }

    /// Finishes the message, like [`Self::ack`], within about 50 ms and in a batch of acks that costs Redis a fraction.
    /// For callers that do not need the answer.
    ///
    /// If Redis cannot be reached while the lease lasts, or the process or the runtime ends before, the message returns
    /// when the lease runs out. [`Consumer::stop`](super::Consumer::stop) waits for the acks; the acks of a dropped
    /// consumer are sent by the remaining runtime.
    pub fn ack_later(mut self) {
        let receipt = self.held.take();
        self.held.settler.ack_later(receipt);
    }

    /// Finishes the message and puts its next message, in one step: both or neither. The next message has no id, and the group of
    /// this message or none, so that it is stored in the same shard; or it has the id, the group and the topic of this message, and
    /// takes its place with attempts counted from the start. It is not put if this message was cancelled meanwhile.
    ///
    /// # Errors
    /// As [`Self::ack`]. If the next message breaks a rule, this message is released with that as the reason.
    pub fn ack_and_put(self, next: Message) -> impl Future<Output = Result<Settled, Error>> + Send + use<> {
        let Self { received, held } = self;
        let group = received.group().cloned();
        let handed = held.ack_and_put(&received.topic, &received.id, group, next);
        async move {
            match handed {
                Ok(answered) => answer(answered).await,
                Err((error, released)) => answer(released).await.and(Err(error)),
            }
        }
    }

    /// Releases the message: the message returns after `delay`, or after the back-off. After the last attempt the
    /// message becomes a dead letter with the reason, of which the first 1,000 bytes are kept.
    ///
    /// # Errors
    /// As [`Self::ack`].
    pub fn release(
        self,
        delay: Option<Duration>,
        reason: &str,
    ) -> impl Future<Output = Result<Settled, Error>> + Send + use<> {
        answer(self.held.release(delay, reason))
    }

    /// Moves a message that can never be delivered to the dead letters with the reason, of which the first 1,000 bytes
    /// are kept.
    ///
    /// # Errors
    /// As [`Self::ack`].
    pub fn bury(self, reason: &str) -> impl Future<Output = Result<Settled, Error>> + Send + use<> {
        answer(self.held.bury(reason))
    }

    pub(super) fn started(mut self) -> Self {
        self.held.dropped = Dropped::Failed;
        self
    }

    /// If the message is never settled, the attempt does not count.
    pub(crate) fn split(self) -> (Received, Held) {
        let Self { received, mut held } = self;
        held.dropped = Dropped::GivenBack;
        (received, held)
    }
}

impl Deref for Delivery {
    type Target = Received;

    fn deref(&self) -> &Received {
        &self.received
    }
}

// === impl Held ===

impl Held {
    pub(super) fn new(
        receipt: Receipt,
        lost: CancellationToken,
        leases: Arc<Leases>,
        settler: Settler,
    ) -> Self {
        Self { receipt: Some(receipt), lost, leases, settler, dropped: Dropped::GivenBack }
    }

    pub(crate) fn ack(self) -> AnswerReceiver {
        self.settle(Settle::Ack)
    }

    /// With an error that the next message has, the message is released.
    pub(crate) fn ack_and_put(
        mut self,
        topic: &Topic,
        id: &MessageId,
        group: Option<Group>,
        next: Message,
    ) -> Result<AnswerReceiver, (Error, AnswerReceiver)> {
        let leased = Leased { receipt: self.take(), topic: topic.clone(), id: id.clone(), group };
        match self.settler.next_put(&leased, next) {
            Ok(settle) => Ok(self.settler.settle(settle)),
            Err(error) => {
                let release = released(leased.receipt, None, &error.to_string());
                Err((error, self.settler.settle(release)))
            }
        }
    }

    pub(crate) fn release(self, delay: Option<Duration>, reason: &str) -> AnswerReceiver {
        self.settle(|receipt| released(receipt, delay, reason))
    }

    pub(crate) fn bury(self, reason: &str) -> AnswerReceiver {
        self.settle(|receipt| Settle::Bury(receipt, reason.to_owned()))
    }

    fn settle(mut self, how: impl FnOnce(Receipt) -> Settle) -> AnswerReceiver {
        let receipt = self.take();
        self.settler.settle(how(receipt))
    }

    fn take(&mut self) -> Receipt {
        let receipt = self.receipt.take().expect("the call that settles it consumes it");
        self.leases.worked(&receipt);
        receipt
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if self.receipt.is_some() {
            let receipt = self.take();
            self.settler.settle_later(match self.dropped {
                Dropped::Failed => released(receipt, None, "dropped without being settled"),
                Dropped::GivenBack => given_back(receipt),
            });
        }
    }
}

pub(crate) async fn answer(answered: AnswerReceiver) -> Result<Settled, Error> {
    answered.await.unwrap_or(Err(Error::Closed))
}

fn released(receipt: Receipt, delay: Option<Duration>, reason: &str) -> Settle {
    Settle::Release(Release { receipt, delay, keep_attempt: false, reason: reason.to_owned() })
}

fn given_back(receipt: Receipt) -> Settle {
    Settle::Release(Release {
        receipt,
        delay: Some(Duration::ZERO),
        keep_attempt: true,
        reason: String::new(),
    })
}
