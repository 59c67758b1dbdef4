//! The consumer: a stream of reserved messages with leases that are kept alive until settlement.
//!
//! The consumer reserves only as many messages as may be handed out ([`ConsumerOptions::concurrency`]), waits for
//! notifications of ready queues (with a poll every second as the safety net), and releases unstarted messages at the
//! stop. With [`ConsumerOptions::pump`], the consumer also pumps.

mod apart;
mod asking;
mod delivery;
mod fetcher;
mod leases;
mod looking;
mod promoting;
mod received;
mod rounds;
mod settlement;
mod settling;

pub use delivery::Delivery;
pub(crate) use delivery::{Held, answer};
pub use fetcher::ConsumerOptions;
pub use received::Received;
pub(crate) use settling::AnswerReceiver;

use crate::client::Client;
use crate::error::Error;
use crate::holder::Holder;
use crate::pumping::WorkersPump;
use fetcher::Fetcher;
use futures_util::Stream;
use futures_util::future::OptionFuture;
use leases::Leases;
use settling::Settler;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// A stream of messages. A drop stops reserving, and releases messages that were not handed out in the background, as
/// long as the runtime lives; their attempts do not count. [`Consumer::stop`] waits for the release.
#[derive(Debug)]
#[must_use = "a dropped consumer delivers nothing"]
pub struct Consumer {
    deliveries: mpsc::UnboundedReceiver<Delivery>,
    stopping: CancellationToken,
    tasks: TaskTracker,
}

// === impl Consumer ===

impl Consumer {
    /// Starts the tasks that reserve, keep leases alive and settle. The tasks cover all shards, including shards that
    /// are added later.
    ///
    /// On a multi-threaded runtime, reserving has its own thread. A single-threaded one (`#[tokio::main(flavor =
    /// "current_thread")]`) shares its thread: a message arrives about 0.03 ms sooner, since no thread has to be woken,
    /// provided that the work never blocks the thread.
    ///
    /// # Errors
    /// [`Error::Option`]: an option is outside the allowed range.
    pub fn start(client: Client, options: ConsumerOptions) -> Result<Self, Error> {
        options.check()?;
        let (handed, deliveries) = mpsc::unbounded_channel();
        let stopping = CancellationToken::new();
        let tasks = TaskTracker::new();
        let leases = Arc::new(Leases::new(options.concurrency, stopping.clone()));
        let holder = Holder::new(client.clone());
        let settler = Settler::start(client.clone(), &leases, &tasks);
        tasks.spawn(Arc::clone(&leases).keep_alive(holder, options.lease));
        let (pump, stop) = (options.pump, stopping.clone());
        let fetcher = Fetcher { client: client.clone(), options, leases, settler, handed };
        // On one thread, so that a message that became ready crosses no cores.
        apart::spawn(&tasks, async move {
            let (ready, pumped) = mpsc::unbounded_channel();
            let pump = pump.then(|| WorkersPump::new(&client, ready).run(stop.clone()));
            tokio::join!(fetcher.run(stop, pumped), OptionFuture::from(pump));
        });
        tasks.close();
        Ok(Self { deliveries, stopping, tasks })
    }

    /// Returns the next message; `None` after the stop. Cancel safe.
    pub async fn next(&mut self) -> Option<Delivery> {
        self.deliveries.recv().await.map(Delivery::started)
    }

    /// Stops reserving, releases messages that were not handed out without counting an attempt, and waits until all
    /// other messages are settled. If Redis cannot be reached, waits until the leases have run out. A dropped future
    /// stops the consumer all the same.
    pub async fn stop(self) {
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
        self.deliveries.poll_recv(cx).map(|next| next.map(Delivery::started))
    }
}
