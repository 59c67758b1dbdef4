//! Publishing: a message is delivered when the stream acked, or in mode core when the connection was flushed.

use super::{NatsConfig, check, encode};
use crate::{CheckError, Parcel, Sink};
use async_nats::{Client, ConnectOptions, jetstream};
use async_trait::async_trait;
use delayq_service::brokers::{NatsAnswer, NatsPublisher, NatsRefusals, Outcome, Outcomes, nats_subject};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::Mutex;
use tokio::time::{sleep, timeout};

/// Maximum unread acks: as many as all destinations of a sink can have in flight.
const MAX_ACKS: usize = 1 << 20;

pub(crate) struct NatsSink {
    config: NatsConfig,
    /// Shorter than the timeout of a call, so that this sink replaces a silent connection itself.
    patience: Duration,
    open: Mutex<Option<NatsConnection>>,
}

#[derive(Clone)]
struct NatsConnection {
    client: Client,
    context: jetstream::Context,
    publisher: Arc<NatsPublisher>,
    refusals: NatsRefusals,
}

struct Tracked<'a> {
    outcomes: &'a Outcomes,
    missing: AtomicUsize,
}

// === impl Tracked ===

impl Tracked<'_> {
    fn put(&self, index: usize, outcome: Outcome) {
        if !matches!(outcome, Outcome::Unavailable { .. }) {
            self.missing.fetch_sub(1, Ordering::Relaxed);
        }
        self.outcomes.put(index, outcome);
    }

    fn put_rest(&self, outcome: &Outcome) {
        self.outcomes.put_rest(outcome);
    }
}

// === impl NatsSink ===

impl NatsSink {
    pub(crate) fn new(config: NatsConfig, deadline: Duration) -> Self {
        Self { config, patience: deadline.mul_f64(0.8), open: Mutex::new(None) }
    }

    async fn open(&self) -> Result<NatsConnection, String> {
        let mut slot = self.open.lock().await;
        if let Some(open) = slot.as_ref() {
            return Ok(open.clone());
        }
        let refusals = NatsRefusals::default();
        let options = self.options(refusals.clone()).await?;
        let client = self.config.access.connect(options).await?;
        let publisher = NatsPublisher::start(client.clone(), refusals.clone())
            .await
            .map_err(|error| error.to_string())?;
        let context = self.context(client.clone());
        let open = NatsConnection { client, context, publisher: Arc::new(publisher), refusals };
        *slot = Some(open.clone());
        Ok(open)
    }

    /// Reads the secrets again for each connection.
    async fn options(&self, refusals: NatsRefusals) -> Result<ConnectOptions, String> {
        let options = self.config.access.options("delayq-forwarder").await?;
        Ok(options
            .connection_timeout(self.patience)
            .event_callback(move |event| {
                refusals.hear(&event);
                std::future::ready(())
            })
            .ping_interval(Duration::from_secs(5))
            .subscription_capacity(MAX_ACKS)
            .request_timeout(Some(self.patience)))
    }

    fn context(&self, client: Client) -> jetstream::Context {
        jetstream::context::ContextBuilder::new().timeout(self.patience).build(client)
    }

    async fn forget(&self) {
        *self.open.lock().await = None;
    }

    /// Publishes all parcels, then stores the outcome of each ack on arrival, up to a common deadline.
    async fn deliver_acked(&self, open: &NatsConnection, parcels: &[Parcel], call: &Tracked<'_>) {
        let mut over = pin!(sleep(self.patience.mul_f64(0.9)));
        let mut dropped = Vec::new();
        let letter = |index: usize| encode::letter(&parcels[index], true);
        open.publisher
            .publish(parcels.len(), letter, over.as_mut(), |index, answer| match answer {
                // The stream matched an earlier message with this id and content.
                NatsAnswer::Duplicate if parcels[index].about.delivery <= 1 => dropped.push(index),
                answer => call.put(index, outcome(answer)),
            })
            .await;
        if !dropped.is_empty() {
            let letter = |index: usize| encode::letter(&parcels[dropped[index]], false);
            let answered = |index: usize, answer| call.put(dropped[index], outcome(answer));
            open.publisher.publish(dropped.len(), letter, over, answered).await;
        }
    }

    async fn deliver_all(&self, parcels: &[Parcel], call: &Tracked<'_>) {
        match self.open().await {
            Err(why) => call.put_rest(&Outcome::down(why)),
            Ok(open) => self.deliver_acked(&open, parcels, call).await,
        }
    }
}

#[async_trait]
impl Sink for NatsSink {
    async fn check(&self, destination: Option<&str>) -> Result<Vec<String>, CheckError> {
        if let Some(subject) = destination {
            nats_subject(subject).map_err(CheckError::Refused)?;
        }
        let checked = timeout(self.patience, async {
            let open = self.open().await.map_err(CheckError::Unreachable)?;
            tokio::select! {
                biased;
                checked = check::check(&open.context, &self.config, destination) => checked,
                words = open.refusals.of("$JS.API") => Ok(vec![check::unseen(destination, &words)]),
            }
        });
        let checked = checked.await.unwrap_or_else(|_| Err(CheckError::Unreachable("no answer".to_owned())));
        if matches!(checked, Err(CheckError::Unreachable(_))) {
            self.forget().await;
        }
        checked
    }

    async fn deliver(&self, parcels: &[Parcel], outcomes: &Arc<Outcomes>) {
        let call = Tracked { outcomes, missing: AtomicUsize::new(parcels.len()) };
        let _ = timeout(self.patience, self.deliver_all(parcels, &call)).await;
        if call.missing.load(Ordering::Relaxed) > 0 {
            let silent = match self.open.lock().await.as_ref() {
                Some(open) => open.publisher.silent(self.patience),
                None => Outcome::silent(format!("no ack within {:?}", self.patience)),
            };
            outcomes.put_rest(&silent);
            // The client may have reconnected by itself; a stuck connection is replaced.
            self.forget().await;
        }
    }

    async fn close(&self) -> Result<(), String> {
        match self.open.lock().await.take() {
            None => Ok(()),
            Some(open) => open.client.drain().await.map_err(|error| error.to_string()),
        }
    }
}

fn outcome(answer: NatsAnswer) -> Outcome {
    match answer {
        NatsAnswer::Outcome(outcome) => outcome,
        NatsAnswer::Duplicate => Outcome::Delivered,
    }
}
