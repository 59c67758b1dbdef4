//! Calls of a lease holder: find topics with ready messages, reserve messages, extend and settle leases.

use crate::client::Client;
use crate::error::Error;
use crate::listen::{Followed, Listener};
use crate::places::Places;
use crate::settle::{Settlement, next_put, settle_all};
use delayq_core::id::Topic;
use delayq_core::keys::Channel;
use delayq_core::leased::Leased;
use delayq_core::message::Message;
use delayq_core::shard::ShardId;
use delayq_core::verbs::overview::{self, TopicsPage};
use delayq_core::verbs::reserve::{self, Receipt, Reservation, ReserveReport, ReserveRequest};
use delayq_core::verbs::settle::{Release, Settled};
use std::time::Duration;

/// The deployment as seen by a holder of leases, such as a forwarder or a consumer. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Holder {
    client: Client,
}

// === impl Holder ===

impl Holder {
    /// Creates a holder over this client's connection.
    pub fn new(client: Client) -> Self {
        Self { client }
    }

    /// The client.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Listens for ready queues that stop being empty, on a separate connection.
    pub fn listen(&self, shards: Vec<ShardId>) -> Listener {
        let calls = &self.client.calls;
        Listener::start(calls, Channel::Ready.into(), shards)
    }

    /// Like [`Self::listen`], and counted by [`Admin::workers`](crate::Admin::workers) as a worker of these topics.
    pub(crate) fn listen_as_worker(&self, shards: Vec<ShardId>, topics: &[Topic]) -> Listener {
        let followed = Followed { channel: Channel::Ready, topics: topics.into() };
        Listener::start(&self.client.calls, followed, shards)
    }

    /// Follows the placement of shards on Redis nodes.
    pub fn places(&self) -> Places {
        Places::of(&self.client.calls)
    }

    /// Reads a page of topics of each of these shards, in one round trip. Each page begins at the end of the previous
    /// page; `None` for the first page.
    pub async fn topics(&self, pages: &[(ShardId, Option<u64>)]) -> Vec<Result<TopicsPage, Error>> {
        let calls = pages.iter().map(|&(shard, from)| overview::topics(shard, from)).collect();
        self.client.calls.ask_all(calls, overview::read_topics).await
    }

    /// Reserves ready messages, from all these shards in one round trip.
    ///
    /// A number outside the allowed range is refused as `DQARG`, and nothing is leased. After an error with fate
    /// *unknown*, messages may be leased without a holder: the messages return when the lease runs out.
    pub async fn reserve(&self, requests: &[(ShardId, ReserveRequest)]) -> Vec<Result<ReserveReport, Error>> {
        let calls = requests
            .iter()
            .map(|(shard, request)| reserve::request(*shard, request, &self.client.name))
            .collect();
        let replies = self.client.calls.send_all(calls).await;
        let (mut unreadable, mut reports) = (Vec::new(), Vec::with_capacity(requests.len()));
        for ((shard, request), reply) in requests.iter().zip(replies) {
            let read = reply.and_then(|reply| Ok(reserve::read(*shard, request, reply)?));
            reports.push(read.map(|(report, some)| {
                unreadable.extend(some);
                report
            }));
        }
        self.bury_unreadable(&unreadable).await;
        let mut messages: Vec<&mut Reservation> =
            reports.iter_mut().flatten().flat_map(|report| &mut report.messages).collect();
        let envelopes = messages.iter_mut().map(|message| &mut message.envelope);
        let answers = self.client.payloads.restore_all(envelopes).await;
        messages.into_iter().zip(answers).for_each(|(message, answer)| message.unrestored = answer);
        reports
    }

    /// Moves messages that cannot be decoded to the dead letters, so that no other messages are blocked.
    async fn bury_unreadable(&self, unreadable: &[(Receipt, String)]) {
        if unreadable.is_empty() {
            return;
        }
        for ((receipt, why), settled) in unreadable.iter().zip(self.bury(unreadable).await) {
            tracing::warn!(?receipt, why, ?settled, "buried a message that cannot be decoded");
        }
    }

    /// Finishes delivered messages: one answer each, in order.
    pub async fn ack(&self, receipts: &[Receipt]) -> Vec<Result<Settled, Error>> {
        self.settle(receipts.iter().map(Settlement::Ack)).await
    }

    /// Finishes a delivered message and puts its next message: both or neither ([`Delivery::ack_and_put`]).
    ///
    /// # Errors
    /// The next message breaks a rule, and nothing was sent; or Redis cannot be used.
    ///
    /// [`Delivery::ack_and_put`]: crate::Delivery::ack_and_put
    pub async fn ack_and_put(&self, leased: &Leased, next: Message) -> Result<Settled, Error> {
        let next = next_put(&self.client, leased, next)?;
        self.settle([Settlement::AckAndPut(&next)].into_iter()).await.remove(0)
    }

    /// Extends leases, from now: by 1 ms to 24 h, otherwise the answer is [`Settled::Failed`]; `None`: by the lease of
    /// the topic.
    pub async fn extend(&self, receipts: &[Receipt], lease: Option<Duration>) -> Vec<Result<Settled, Error>> {
        self.settle(receipts.iter().map(|receipt| Settlement::Extend(receipt, lease))).await
    }

    /// Releases messages that were not delivered.
    pub async fn release(&self, releases: &[Release]) -> Vec<Result<Settled, Error>> {
        self.settle(releases.iter().map(Settlement::Release)).await
    }

    /// Moves messages to the dead letters, each with its reason.
    pub async fn bury(&self, buried: &[(Receipt, String)]) -> Vec<Result<Settled, Error>> {
        self.settle(buried.iter().map(|(receipt, reason)| Settlement::Bury(receipt, reason))).await
    }

    async fn settle<'s>(&self, all: impl Iterator<Item = Settlement<'s>>) -> Vec<Result<Settled, Error>> {
        settle_all(&self.client.calls, &all.collect::<Vec<_>>()).await
    }
}
