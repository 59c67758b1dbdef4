//! A worker: runs a handler for each topic, and manages leases and settlements.

mod done;
mod failure;
mod handling;
mod job;
mod serving;
pub mod testing;

pub use done::Done;
pub use failure::Failure;
pub use job::Job;

use crate::client::Client;
use crate::error::Error;
use delayq_core::fate::Advice;
use delayq_core::id::Topic;
use delayq_core::limits::DEFAULT_CONCURRENCY;
use futures_util::FutureExt;
use handling::Handler;
use serving::Serving;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// Default time for handlers to finish after the stop.
const GRACE: Duration = Duration::from_secs(30);

/// Handles messages until stopped, each by the handler of the topic.
///
/// A handler that returns `Ok` acks the message; `Ok` with a message also puts that as the next one ([`Done`]). A handler that returns an error, or panics, releases the message with
/// the text of the error: the message is retried after the back-off, and becomes a dead letter after the last attempt;
/// [`Failure`] can change that. Leases are extended while handlers run. The worker waits for the end of a Redis outage.
///
/// ```no_run
/// # async fn example(client: delayq::Client) -> Result<(), Box<dyn std::error::Error>> {
/// use delayq::worker::{Failure, Job};
/// use delayq::{Topic, Worker};
///
/// async fn cancel_if_unpaid(job: Job) -> Result<(), Failure> {
///     let order = std::str::from_utf8(job.payload())?;
///     println!("not paid in time: {order}");
///     Ok(())
/// }
///
/// Worker::new(client)
///     .handle(Topic::new("orders")?, cancel_if_unpaid)
///     .run(async { drop(tokio::signal::ctrl_c().await) })
///     .await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "a worker does nothing until it runs"]
pub struct Worker {
    client: Client,
    shared: Serving,
    apart: Vec<Serving>,
    lease: Option<Duration>,
    grace: Duration,
    pump: bool,
}

// === impl Worker ===

impl Worker {
    /// Creates a worker without handlers.
    pub fn new(client: Client) -> Self {
        let shared = Serving { handlers: Vec::new(), concurrency: DEFAULT_CONCURRENCY, pump: false };
        Self { client, shared, apart: Vec::new(), lease: None, grace: GRACE, pump: false }
    }

    /// Sets the concurrency of all topics without a separate limit: 1 to 10,000 messages. Default 10.
    pub fn concurrency(mut self, concurrency: usize) -> Self {
        self.shared.concurrency = concurrency;
        self
    }

    /// Sets the length of a lease unless extended, 1 ms to 24 h, as
    /// [`ConsumerOptions::lease`](crate::ConsumerOptions::lease). Default: the setting of the topic.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = Some(lease);
        self
    }

    /// Sets the time that a stop waits for running handlers. Default 30 s.
    pub fn grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// Also pumps due messages, as [`ConsumerOptions::pump`](crate::ConsumerOptions::pump): the worker and one Redis then
    /// deliver on time, without a timer. Default false.
    pub fn pump(mut self, pump: bool) -> Self {
        self.pump = pump;
        self
    }

    /// Adds the handler of a topic. Topics are served in the order of these calls: earlier topics come first. A second
    /// handler of a topic replaces the first.
    pub fn handle<F, D>(mut self, topic: Topic, handler: impl Fn(Job) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<D, Failure>> + Send + 'static,
        D: Into<Done>,
    {
        self.shared.handlers.retain(|(known, _)| *known != topic);
        self.shared.handlers.push((topic, boxed(handler)));
        self
    }

    /// Adds the handler of a topic with a separate concurrency (1 to 10,000), independent of other topics: for slow
    /// handlers, or for handlers that must not run side by side. Uses additional connections.
    pub fn handle_apart<F, D>(
        mut self,
        topic: Topic,
        concurrency: usize,
        handler: impl Fn(Job) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = Result<D, Failure>> + Send + 'static,
        D: Into<Done>,
    {
        self.apart.push(Serving { handlers: vec![(topic, boxed(handler))], concurrency, pump: false });
        self
    }

    /// Works until `shutdown` resolves. Then the worker reserves no more, gives back messages without a started
    /// handler, and waits for running handlers. Handlers that exceed the grace are dropped at the next await, and their
    /// messages are given back. A message that is given back keeps the attempt. If this future is dropped, all handlers
    /// are dropped in the same way.
    ///
    /// # Errors
    /// [`Error::Option`] if an option is outside the allowed range; otherwise a fault of the deployment at the start.
    /// Nothing was handled.
    pub async fn run(self, shutdown: impl Future<Output = ()>) -> Result<(), Error> {
        let Self { client, shared, apart, lease, grace, pump } = self;
        let mut serving: Vec<Serving> =
            apart.into_iter().chain([shared]).filter(|some| !some.handlers.is_empty()).collect();
        if let Some(first) = serving.first_mut() {
            first.pump = pump;
        }
        serving.iter().try_for_each(|some| some.options(lease).check())?;
        if let Err(error) = client.calls.layout().await
            && error.advice() == Advice::GiveUp
        {
            return Err(error);
        }
        let (mut running, stopping) = (JoinSet::new(), CancellationToken::new());
        for some in serving {
            running.spawn(some.run(client.clone(), lease, stopping.clone(), grace));
        }
        let served = "the task of a topic does not panic";
        tokio::select! {
            () = shutdown => {}
            // A serving task ended unexpectedly: the other tasks give back their messages, and the worker ends.
            Some(ended) = running.join_next() => ended.expect(served),
        }
        stopping.cancel();
        while let Some(ended) = running.join_next().await {
            ended.expect(served);
        }
        Ok(())
    }
}

fn boxed<F, D>(handler: impl Fn(Job) -> F + Send + Sync + 'static) -> Handler
where
    F: Future<Output = Result<D, Failure>> + Send + 'static,
    D: Into<Done>,
{
    Arc::new(move |job| handler(job).map(|handled| handled.map(Into::into)).boxed())
}

impl fmt::Debug for Worker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worker").field("client", &self.client).finish_non_exhaustive()
    }
}
