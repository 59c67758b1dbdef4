//! Publishing: a message is delivered when the stream acked, or in mode core when the connection was flushed.

use super::acks::{Ack, Acks};
use super::refusals::Refusals;
use super::{NatsConfig, NatsMode, check, encode};
use crate::{CheckError, Outcome, Outcomes, Parcel, Sink};
use async_nats::client::{PublishError, PublishErrorKind};
use async_nats::{Client, ConnectOptions, Subject, header, jetstream};
use async_trait::async_trait;
use delayq_service::brokers::nats_subject;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::Mutex;
use tokio::time::{Sleep, interval, sleep, timeout};

/// Interval at which received acks are handed out while others are missing.
const COLLECT_EVERY: Duration = Duration::from_millis(50);

/// Maximum unread acks: as many as all destinations of a sink can have in flight.
const MAX_ACKS: usize = 1 << 20;
const CORE: &str = "mode = core delivers at most once: messages without a subscriber, or in flight when a connection breaks, are lost";

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
    acks: Arc<Acks>,
    refusals: Refusals,
}

/// With or without the id that deduplicates repeats.
struct Publishing<'a> {
    parcels: &'a [Parcel],
    indices: Vec<usize>,
    with_id: bool,
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
        let refusals = Refusals::new();
        let options = self.options(refusals.clone()).await?;
        let client = self.config.access().connect(options).await?;
        let acks = Arc::new(Acks::start(&client).await.map_err(|error| error.to_string())?);
        let open = NatsConnection { context: self.context(client.clone()), client, acks, refusals };
        *slot = Some(open.clone());
        Ok(open)
    }

    /// Reads the secrets again for each connection.
    async fn options(&self, refusals: Refusals) -> Result<ConnectOptions, String> {
        let options = self.config.access().options("delayq-forwarder").await?;
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
        let all = (0..parcels.len()).collect();
        publish(
            open,
            Publishing { parcels, indices: all, with_id: true },
            call,
            over.as_mut(),
            |index, ack| {
                // A duplicate on the first delivery: the stream matched an earlier message with this id and content.
                if ack == Ack::Duplicate && parcels[index].about.delivery <= 1 {
                    dropped.push(index);
                } else {
                    call.put(index, outcome(ack));
                }
            },
        )
        .await;
        if !dropped.is_empty() {
            let again = Publishing { parcels, indices: dropped, with_id: false };
            publish(open, again, call, over, |index, ack| call.put(index, outcome(ack))).await;
        }
    }

    async fn deliver_core(&self, client: &Client, parcels: &[Parcel], call: &Tracked<'_>) {
        let mut sent = Vec::with_capacity(parcels.len());
        for (index, parcel) in parcels.iter().enumerate() {
            match nats_subject(&parcel.destination).and_then(|()| encode::headers(parcel)) {
                Err(reason) => call.put(index, Outcome::rejected(reason)),
                Ok(headers) => {
                    let (subject, body) = (parcel.destination.clone(), parcel.body.clone());
                    match client.publish_with_headers(subject, headers, body).await {
                        Ok(()) => sent.push(index),
                        Err(error) => call.put(index, Outcome::down(error.to_string())),
                    }
                }
            }
        }
        let flushed = match client.flush().await {
            Ok(()) => Outcome::Delivered,
            Err(error) => Outcome::down(error.to_string()),
        };
        sent.into_iter().for_each(|index| call.put(index, flushed.clone()));
    }

    async fn deliver_all(&self, parcels: &[Parcel], call: &Tracked<'_>) {
        match (self.open().await, self.config.mode) {
            (Err(why), _) => call.put_rest(&Outcome::down(why)),
            (Ok(open), NatsMode::Core) => self.deliver_core(&open.client, parcels, call).await,
            (Ok(open), NatsMode::Jetstream) => self.deliver_acked(&open, parcels, call).await,
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
            match self.config.mode {
                NatsMode::Core => Ok(vec![CORE.to_owned()]),
                NatsMode::Jetstream => tokio::select! {
                    biased;
                    checked = check::check(&open.context, &self.config, destination) => checked,
                    words = open.refusals.of("$JS.API") => Ok(vec![check::unseen(destination, &words)]),
                },
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
            let refused = self.open.lock().await.as_ref().and_then(|open| open.refusals.last());
            let refused = refused.map_or_else(String::new, |words| format!(": {words}"));
            outcomes.put_rest(&Outcome::silent(format!("no ack within {:?}{refused}", self.patience)));
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

/// Hands out acks until the last ack or the deadline.
async fn publish(
    open: &NatsConnection,
    load: Publishing<'_>,
    call: &Tracked<'_>,
    mut over: Pin<&mut Sleep>,
    mut acked: impl FnMut(usize, Ack),
) {
    let acks = open.acks.call(load.indices.len());
    let sending = async {
        let mut known: Option<Subject> = None;
        for (index, number) in load.indices.iter().enumerate() {
            let parcel = &load.parcels[*number];
            if let Err(outcome) =
                send(&open.client, &mut known, parcel, load.with_id, acks.reply(index)).await
            {
                call.put(*number, outcome);
                // This index waits for no ack.
                acks.answers.put(index, Ack::NoStream);
            }
        }
    };
    if before(over.as_mut(), sending).await.is_none() {
        return;
    }
    let mut every = interval(COLLECT_EVERY);
    loop {
        let ended = tokio::select! {
            biased;
            () = acks.answers.complete() => true,
            () = over.as_mut() => true,
            _ = every.tick() => false,
        };
        acks.answers.fresh().into_iter().for_each(|(index, ack)| acked(load.indices[index], ack));
        if ended {
            return;
        }
    }
}

/// `known` is the previous subject.
async fn send(
    client: &Client,
    known: &mut Option<Subject>,
    parcel: &Parcel,
    with_id: bool,
    reply: Subject,
) -> Result<(), Outcome> {
    if known.as_ref().is_none_or(|known| known.as_str() != parcel.destination) {
        nats_subject(&parcel.destination).map_err(Outcome::rejected)?;
        *known = Some(parcel.destination.as_str().into());
    }
    let subject = known.clone().expect("it was just set");
    let mut headers = encode::headers(parcel).map_err(Outcome::rejected)?;
    if with_id {
        headers.insert(header::NATS_MESSAGE_ID, parcel.about.identity.as_str());
    }
    let sent = client.publish_with_reply_and_headers(subject, reply, headers, parcel.body.clone()).await;
    sent.map_err(|error| refused(&error))
}

/// `None` if the deadline comes first.
async fn before<T>(over: Pin<&mut Sleep>, work: impl Future<Output = T>) -> Option<T> {
    tokio::select! {
        biased;
        output = work => Some(output),
        () = over => None,
    }
}

fn outcome(ack: Ack) -> Outcome {
    match ack {
        Ack::Stored | Ack::Duplicate => Outcome::Delivered,
        Ack::NoStream => Outcome::failed("no stream found for given subject"),
        // The stream's limit on message size; other refusals concern the stream as a whole.
        Ack::Refused(why) if why.contains("message size exceeds maximum") => Outcome::rejected(why),
        Ack::Refused(why) | Ack::Nonsense(why) => Outcome::down(why),
    }
}

fn refused(error: &PublishError) -> Outcome {
    match error.kind() {
        PublishErrorKind::MaxPayloadExceeded | PublishErrorKind::InvalidSubject => {
            Outcome::rejected(error.to_string())
        }
        PublishErrorKind::Send => Outcome::down(error.to_string()),
    }
}
