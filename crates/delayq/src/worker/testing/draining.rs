//! Drains topics in a test: delivers message after message, and moves the deployment to the next due time in between.

use super::Isolated;
use crate::admin::{ListState, Listing, TimeRange};
use crate::consumer::Received;
use crate::error::Error;
use crate::holder::Holder;
use crate::worker::done::Done;
use crate::worker::failure::{Failure, Then};
use crate::worker::handling::panicked;
use crate::worker::job::Job;
use delayq_core::id::{Group, MessageId, Topic};
use delayq_core::leased::Leased;
use delayq_core::message::Message;
use delayq_core::time::UnixMillis;
use delayq_core::verbs::reserve::{Receipt, Reservation, ReserveRequest};
use delayq_core::verbs::settle::{Release, Settled};
use futures_util::FutureExt;
use std::panic::AssertUnwindSafe;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Maximum deliveries of a drain: a handler that needs more is taken to put messages for ever.
const MAX_DELIVERIES: usize = 1000;

/// One delivery: the message, how it was settled, and how the handler failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drained {
    /// The topic.
    pub topic: Topic,
    /// The id.
    pub id: MessageId,
    /// The group.
    pub group: Option<Group>,
    /// The payload.
    pub payload: Vec<u8>,
    /// The number of this attempt, from 1.
    pub attempt: u16,
    /// [`Settled::Delivered`]; after a failure, delayed or ready for another attempt, or buried.
    pub settled: Settled,
    /// The failure of the handler.
    pub failure: Option<Failure>,
}

/// Messages are left that no further delivery would finish.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NotDrained {
    /// The sentence names the topic, and what to do.
    #[error("{why}")]
    Left {
        /// The sentence.
        why: String,
        /// The deliveries up to then.
        drained: Vec<Drained>,
    },
    /// Redis cannot be used.
    #[error(transparent)]
    Redis(#[from] Error),
}

// === impl Isolated ===

impl Isolated {
    /// Delivers messages to a handler, as a worker does: what is ready, and then one by one what is due first, until
    /// nothing of the topics is delayed, ready or leased. Attempts after a back-off and messages that the handler puts
    /// are included. Returns every delivery.
    ///
    /// # Errors
    /// [`NotDrained::Left`] after 1,000 deliveries, or if a message cannot be delivered.
    pub async fn drain<D: Into<Done>>(
        &self,
        topics: &[Topic],
        handler: impl AsyncFn(Job) -> Result<D, Failure>,
    ) -> Result<Vec<Drained>, NotDrained> {
        let mut drained: Vec<Drained> = Vec::new();
        while let Some(next) = self.next(topics).await? {
            if drained.len() == MAX_DELIVERIES {
                let why = endless(&next, &drained);
                let back = Release {
                    receipt: next.receipt,
                    delay: Some(Duration::ZERO),
                    keep_attempt: true,
                    reason: String::new(),
                };
                Holder::new(self.client.clone()).release(&[back]).await.remove(0)?;
                return Err(NotDrained::Left { why, drained });
            }
            drained.push(self.deliver(next, &handler).await?);
        }
        for topic in topics {
            let left = self.admin.topic(topic).count().await?;
            let why = match (left.leased, left.delayed + left.ready) {
                (0, 0) => continue,
                (0, n) => format!(
                    "{topic} has messages ({n}) that cannot be reserved: is it paused, or limited by a rate?"
                ),
                (n, _) => format!(
                    "{topic} has leased messages ({n}): before a drain, settle what the test itself has reserved"
                ),
            };
            return Err(NotDrained::Left { why, drained });
        }
        Ok(drained)
    }

    /// Reserves a message that is ready, or else the one that is due first.
    async fn next(&self, topics: &[Topic]) -> Result<Option<Reservation>, Error> {
        if let Some(found) = self.ready(topics).await? {
            return Ok(Some(found));
        }
        let mut first: Option<(UnixMillis, &Topic)> = None;
        for topic in topics {
            let listing = Listing::Topic { topic, state: ListState::Delayed, range: TimeRange::ALL };
            let listed = self.admin.page(listing, None, 1).await?.messages.pop();
            let due = listed.and_then(|one| one.envelope.ok()).map(|envelope| (envelope.due, topic));
            first = first.into_iter().chain(due).min();
        }
        if let Some((_, topic)) = first {
            self.admin.promote_earliest(topic, UnixMillis::MAX, 1).await?;
            if let Some(found) = self.ready(topics).await? {
                return Ok(Some(found));
            }
        }
        self.pump().await?; // it was due already
        self.ready(topics).await
    }

    async fn ready(&self, topics: &[Topic]) -> Result<Option<Reservation>, Error> {
        let holder = Holder::new(self.client.clone());
        for shard in self.shards() {
            let request = ReserveRequest { topics: topics.to_vec(), most: 1, max_bytes: 0, lease: None };
            if let Some(found) = holder.reserve(&[(shard, request)]).await.remove(0)?.messages.pop() {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    async fn deliver<D: Into<Done>>(
        &self,
        one: Reservation,
        handler: &impl AsyncFn(Job) -> Result<D, Failure>,
    ) -> Result<Drained, Error> {
        let Reservation { receipt, topic, id, ready, envelope, .. } = one;
        let (group, payload, attempt) = (envelope.group.clone(), envelope.payload.to_vec(), envelope.attempt);
        let received = Received { topic: topic.clone(), id: id.clone(), ready, envelope };
        let job = Job { received, lost: CancellationToken::new() };
        let handled = AssertUnwindSafe(handler(job)).catch_unwind().await;
        let handled = handled.unwrap_or_else(|panic| Err(panicked(&*panic)));
        let leased = Leased { receipt, topic: topic.clone(), id: id.clone(), group: group.clone() };
        let acked = match handled.map(Into::into) {
            Ok(Done { next }) => self.ack(&leased, next).await?,
            Err(failure) => Err(failure),
        };
        let (settled, failure) = match acked {
            Ok(settled) => (settled, None),
            Err(failure) => (self.fail(leased.receipt, &failure).await?, Some(failure)),
        };
        Ok(Drained { topic, id, group, payload, attempt, settled, failure })
    }

    /// Acks a message; a next message that breaks a rule fails the attempt.
    async fn ack(&self, leased: &Leased, next: Option<Message>) -> Result<Result<Settled, Failure>, Error> {
        let holder = Holder::new(self.client.clone());
        let Some(next) = next else {
            return holder.ack(std::slice::from_ref(&leased.receipt)).await.remove(0).map(Ok);
        };
        match holder.ack_and_put(leased, next).await {
            Err(error @ Error::Message(_)) => Ok(Err(error.into())),
            settled => settled.map(Ok),
        }
    }

    async fn fail(&self, receipt: Receipt, failure: &Failure) -> Result<Settled, Error> {
        let (holder, reason) = (Holder::new(self.client.clone()), failure.reason.clone());
        match failure.then {
            Then::Bury => holder.bury(&[(receipt, reason)]).await.remove(0),
            Then::Retry(delay) => {
                let release = Release { receipt, delay, keep_attempt: false, reason };
                holder.release(&[release]).await.remove(0)
            }
        }
    }
}

fn endless(next: &Reservation, drained: &[Drained]) -> String {
    let last = drained.last().and_then(|one| one.failure.as_ref());
    let failed = last.map(|failure| format!("; it failed at last: {}", failure.reason)).unwrap_or_default();
    format!(
        "{} is not drained after {} deliveries, {} is next: does the handler put messages for ever, or fail for ever?{failed}",
        next.topic,
        drained.len(),
        next.id
    )
}
