//! A worker: a handler for each topic, and everything around it.

mod failure;
mod handling;
mod job;
mod serving;

pub use failure::Failure;
pub use job::Job;

use crate::client::Client;
use crate::error::Error;
use delayq_core::fate::Advice;
use delayq_core::id::Topic;
use futures_util::FutureExt;
use handling::Handler;
use serving::Serving;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// Default number of messages that are handled at once.
const CONCURRENCY: usize = 10;

/// Default time for handlers to end after the stop.
const GRACE: Duration = Duration::from_secs(30);

/// Has messages handled, each by the handler of its topic, until it is stopped.
///
/// A handler that returns `Ok` acks its message. One that returns an error, or panics, releases it with the error's text: it
/// is tried again after its back-off, and becomes a dead letter after its last attempt; [`Failure`] can say otherwise. Leases
/// are extended while handlers run. An outage of Redis is waited for.
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
}

// === impl Worker ===

impl Worker {
    /// A worker without handlers.
    pub fn new(client: Client) -> Self {
        let shared = Serving { handlers: Vec::new(), concurrency: CONCURRENCY };
        Self { client, shared, apart: Vec::new(), lease: None, grace: GRACE }
    }

    /// How many messages are handled at once, of all topics that have no number of their own: 1 to 10,000. Default 10.
    pub fn concurrency(mut self, concurrency: usize) -> Self {
        self.shared.concurrency = concurrency;
        self
    }

    /// How long a lease lasts unless it is extended, 1 ms to 24 h, as [`ConsumerOptions::lease`](crate::ConsumerOptions::lease). Default:
    /// as the topic says.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = Some(lease);
        self
    }

    /// How long a stop waits for the handlers that run. Default 30 s.
    pub fn grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// Has the messages of a topic handled. Topics are served in the order of these calls: the first that has something
    /// first. A second handler of a topic replaces the first.
    pub fn handle<F>(mut self, topic: Topic, handler: impl Fn(Job) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<(), Failure>> + Send + 'static,
    {
        self.shared.handlers.retain(|(known, _)| *known != topic);
        self.shared.handlers.push((topic, boxed(handler)));
        self
    }

    /// Has the messages of a topic handled, so many at once (1 to 10,000), whatever other topics have: for handlers that are slow, or must
    /// not run side by side. Takes connections of its own.
    pub fn handle_apart<F>(
        mut self,
        topic: Topic,
        concurrency: usize,
        handler: impl Fn(Job) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = Result<(), Failure>> + Send + 'static,
    {
        self.apart.push(Serving { handlers: vec![(topic, boxed(handler))], concurrency });
        self
    }

    /// Works until `shutdown` resolves. Then it reserves no more, gives back what no handler has begun, and waits for the
    /// handlers that run; those that have not ended within the grace are dropped at their next await, and their messages given
    /// back. What is given back keeps its attempt. A dropped future drops all handlers so.
    ///
    /// # Errors
    /// [`Error::Option`] if an option is outside its range; otherwise what is wrong with the deployment at the start. Nothing
    /// was handled.
    pub async fn run(self, shutdown: impl Future<Output = ()>) -> Result<(), Error> {
        let Self { client, shared, apart, lease, grace } = self;
        let serving: Vec<Serving> =
            apart.into_iter().chain([shared]).filter(|some| !some.handlers.is_empty()).collect();
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
        let served = "what serves a topic does not panic";
        tokio::select! {
            () = shutdown => {}
            // Unasked: the others hand back what they have, and the worker ends.
            Some(ended) = running.join_next() => ended.expect(served),
        }
        stopping.cancel();
        while let Some(ended) = running.join_next().await {
            ended.expect(served);
        }
        Ok(())
    }
}

fn boxed<F>(handler: impl Fn(Job) -> F + Send + Sync + 'static) -> Handler
where
    F: Future<Output = Result<(), Failure>> + Send + 'static,
{
    Arc::new(move |job| handler(job).boxed())
}

impl fmt::Debug for Worker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worker").field("client", &self.client).finish_non_exhaustive()
    }
}
