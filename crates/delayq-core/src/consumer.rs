//! The consumer: a stream of reserved messages, whose leases are kept alive until they are settled.
//!
//! It reserves only as much as it may hand out ([`ConsumerOptions::concurrency`]), waits without polling (ready
//! queues say when they stop being empty; a look every second is the net below), and gives back what nobody started
//! when it is stopped.

mod apart;
mod asking;
mod fetcher;
mod later;
mod leases;
mod looking;
mod settlement;
mod settling;

use crate::client::in_range;
use crate::{Client, Envelope, Error, MessageId, Receipt, Release, Settled, Topic, UnixMicros, UnixMillis};
use fetcher::Fetcher;
use futures_util::{Stream, StreamExt, stream::FuturesUnordered};
use leases::Leases;
use settlement::Settle;
use settling::Settler;
use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};
use tokio::sync::mpsc;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

/// How a consumer works.
#[derive(Clone, Debug)]
pub struct ConsumerOptions {
    /// The topics, the first that has something first: in each shard, strictly, when it is reserved from. There is no
    /// order between shards, and what is reserved already is handed out before what came meanwhile; a `concurrency` of 1
    /// keeps that to one message.
    pub topics: Vec<Topic>,
    /// The most messages that are handed out and not settled, 1 to 10,000. Default 64.
    pub concurrency: usize,
    /// How long a lease lasts unless it is extended; `None`: as the topic says. It is extended at a third of it, until the
    /// message is settled. 1 ms to 24 h; at least 1 s is sensible.
    pub lease: Option<Duration>,
}

/// A stream of messages. Dropped, it hands nothing out any more, and what it reserved comes back when the leases run
/// out; [`Consumer::stop`] gives it back at once.
#[derive(Debug)]
pub struct Consumer {
    deliveries: mpsc::UnboundedReceiver<Delivery>,
    stopping: CancellationToken,
    tasks: TaskTracker,
}

/// A message that the holder has to settle. Dropped unsettled, it is released by its back-off.
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
    held: Option<Held>,
}

#[derive(Debug)]
struct Held {
    receipt: Receipt,
    lost: CancellationToken,
    leases: Arc<Leases>,
    settler: Settler,
}

// === impl ConsumerOptions ===

impl ConsumerOptions {
    /// The defaults for these topics.
    pub fn new(topics: impl Into<Vec<Topic>>) -> Self {
        Self { topics: topics.into(), concurrency: 64, lease: None }
    }
}

// === impl Consumer ===

impl Consumer {
    /// Starts to reserve, and the tasks that keep leases alive and settle. Over all shards, also those that a growth
    /// adds later.
    ///
    /// On a runtime of several threads, what reserves has a thread of its own. On one of a single thread
    /// (`#[tokio::main(flavor = "current_thread")]`) it shares that: a message is in hand some 0.03 ms sooner, since no
    /// thread has to be woken for it, as long as the work never keeps the thread busy.
    pub fn start(client: Client, options: ConsumerOptions) -> Self {
        let (handed, deliveries) = mpsc::unbounded_channel();
        let stopping = CancellationToken::new();
        let tasks = TaskTracker::new();
        let concurrency = in_range("concurrency", options.concurrency, 1..=10_000);
        let leases = Arc::new(Leases::new(concurrency, stopping.clone()));
        let settler = Settler::start(client.clone(), &leases, &tasks);
        tasks.spawn(Arc::clone(&leases).keep_alive(client.clone(), options.lease));
        let fetcher = Fetcher { client, options, leases, settler, handed };
        apart::spawn(&tasks, fetcher.run(stopping.clone()));
        tasks.close();
        Self { deliveries, stopping, tasks }
    }

    /// The next message; `None` once it is stopped. Safe to drop.
    pub async fn next(&mut self) -> Option<Delivery> {
        self.deliveries.recv().await
    }

    /// Stops to reserve, gives back what was not handed out, and waits until what was handed out is settled; where Redis
    /// cannot be told, until the leases have run out.
    pub async fn stop(mut self) {
        self.stopping.cancel();
        self.deliveries.close();
        let mut unstarted = FuturesUnordered::new();
        while let Some(mut delivery) = self.deliveries.recv().await {
            unstarted.extend(delivery.held.take().map(Held::give_back));
        }
        while unstarted.next().await.is_some() {}
        let tasks = self.tasks.clone();
        drop(self);
        tasks.wait().await;
    }
}

impl Drop for Consumer {
    fn drop(&mut self) {
        self.stopping.cancel();
    }
}

impl Stream for Consumer {
    type Item = Delivery;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Delivery>> {
        self.deliveries.poll_recv(cx)
    }
}

// === impl Delivery ===

impl Delivery {
    /// When it was due.
    pub fn due(&self) -> UnixMillis {
        self.envelope.due
    }

    /// How late it became ready.
    pub fn lateness(&self) -> Duration {
        self.ready.since(self.envelope.due)
    }

    /// Resolves when the lease was taken back, or a cancel came: the work is better left.
    pub async fn lost(&self) {
        match &self.held {
            Some(held) => held.lost.cancelled().await,
            None => std::future::pending().await,
        }
    }

    /// It was delivered: it is over. Goes together with other settlements. Where Redis cannot be told, it is told again,
    /// and the lease extended, for as long as that lasts. A dropped future is settled all the same.
    ///
    /// # Errors
    /// The lease ran out before Redis could be told, or Redis refuses: it comes again. With fate *unknown* it may be over.
    pub async fn ack(mut self) -> Result<Settled, Error> {
        self.settle(Settle::Ack).await
    }

    /// It was delivered: it is over, once Redis is told; within some 50 ms, together with others, which costs Redis a
    /// fraction. For whoever has nothing left to do with the answer.
    ///
    /// Where Redis cannot be told while the lease lasts, or the process or its runtime ends before, the message comes again
    /// when its lease runs out. [`Consumer::stop`] waits until Redis is told; a consumer that is dropped has it told by the runtime it leaves.
    pub fn ack_later(mut self) {
        if let Some(held) = self.held.take() {
            held.leases.worked(&held.receipt);
            held.settler.ack_later(held.receipt);
        }
    }

    /// It was not delivered: it comes again after `delay`, or by its back-off; at its last attempt it goes to the
    /// dead letters with the reason.
    ///
    /// # Errors
    /// As [`Self::ack`].
    pub async fn release(mut self, delay: Option<Duration>, reason: &str) -> Result<Settled, Error> {
        let reason = reason.to_owned();
        self.settle(move |receipt| Settle::Release(Release { receipt, delay, keep_attempt: false, reason }))
            .await
    }

    /// It can never be delivered: it goes to the dead letters with the reason.
    ///
    /// # Errors
    /// As [`Self::ack`].
    pub async fn bury(mut self, reason: &str) -> Result<Settled, Error> {
        let reason = reason.to_owned();
        self.settle(move |receipt| Settle::Bury(receipt, reason)).await
    }

    /// Gives it back without waiting: nobody takes it any more.
    fn give_back_later(mut self) {
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

    /// Gives back what nobody has started: the attempt does not count.
    async fn give_back(self) {
        if let Err(error) = self.settle(unstarted).await {
            tracing::warn!(%error, "a message was not given back: it comes again when its lease runs out");
        }
    }
}

/// How a message is given back that nobody has started.
fn unstarted(receipt: Receipt) -> Settle {
    Settle::Release(Release {
        receipt,
        delay: Some(Duration::ZERO),
        keep_attempt: true,
        reason: String::new(),
    })
}
