//! Publishing: delivered is an ack of the stream, and nothing else. In mode core it is a flushed connection.

use super::{NatsConfig, NatsMode, check, encode};
use crate::{CheckError, Outcome, Parcel, Sink};
use async_nats::{
    Client, ConnectOptions,
    jetstream::{
        self,
        context::{PublishAckFuture, PublishError, PublishErrorKind},
        message::PublishMessage,
    },
};
use async_trait::async_trait;
use secrecy::ExposeSecret;
use std::{
    pin::{Pin, pin},
    time::Duration,
};
use tokio::{
    sync::Mutex,
    time::{Sleep, sleep, timeout},
};

const CORE: &str = "mode = core delivers at most once: what nobody listens to, and what is on its way when a connection breaks, is lost";

/// A server or cluster.
pub(crate) struct NatsSink {
    config: NatsConfig,
    /// A part of the time that a call has, so that a connection which is silent is thrown away by this sink.
    patience: Duration,
    open: Mutex<Option<Open>>,
}

/// A connection, and JetStream over it.
#[derive(Clone)]
struct Open {
    client: Client,
    context: jetstream::Context,
}

/// A publication under way, or why it was not sent.
type UnderWay = Result<PublishAckFuture, Outcome>;

// === impl NatsSink ===

impl NatsSink {
    pub(crate) fn new(config: NatsConfig, deadline: Duration) -> Self {
        Self { config, patience: deadline.mul_f64(0.8), open: Mutex::new(None) }
    }

    async fn open(&self) -> Result<Open, String> {
        let mut slot = self.open.lock().await;
        if let Some(open) = slot.as_ref() {
            return Ok(open.clone());
        }
        let client = self.options().await?.connect(self.config.servers.as_slice()).await;
        let client = client.map_err(|error| format!("{}: {error}", self.config.servers.join(", ")))?;
        let open = Open { context: self.context(client.clone()), client };
        *slot = Some(open.clone());
        Ok(open)
    }

    /// The secrets are read anew for each connection.
    async fn options(&self) -> Result<ConnectOptions, String> {
        let mut options = ConnectOptions::new()
            .name("delayq-forwarder")
            .connection_timeout(self.patience)
            .ping_interval(Duration::from_secs(5))
            .request_timeout(Some(self.patience));
        if let (Some(username), Some(password)) = (&self.config.username, &self.config.password) {
            options =
                options.user_and_password(username.clone(), password.reveal()?.expose_secret().to_owned());
        }
        if let Some(token) = &self.config.token {
            options = options.token(token.reveal()?.expose_secret().to_owned());
        }
        if let Some(path) = &self.config.credentials {
            let read = options.credentials_file(path).await;
            options = read.map_err(|error| format!("the credentials {}: {error}", path.display()))?;
        }
        if let Some(path) = &self.config.ca {
            options = options.add_root_certificates(path.clone()).require_tls(true);
        }
        Ok(options)
    }

    fn context(&self, client: Client) -> jetstream::Context {
        jetstream::context::ContextBuilder::new()
            .timeout(self.patience)
            .ack_timeout(self.patience)
            .max_ack_inflight(65_536)
            .build(client)
    }

    async fn forget(&self) {
        *self.open.lock().await = None;
    }

    /// Publishes all, then waits for the acks in their order. One timer for all of them: what has no ack when it is
    /// over has none, and what has one by then counts.
    async fn deliver_acked(&self, context: &jetstream::Context, parcels: &[Parcel]) -> Vec<Outcome> {
        let mut over = pin!(sleep(self.patience.mul_f64(0.9)));
        let silent = || Outcome::down(format!("no ack within {:?}", self.patience));
        let mut under_way: Vec<UnderWay> = Vec::with_capacity(parcels.len());
        for parcel in parcels {
            let sent = before(over.as_mut(), publish(context, parcel, true)).await;
            under_way.push(sent.unwrap_or_else(|| Err(silent())));
        }
        let mut outcomes = Vec::with_capacity(parcels.len());
        for (parcel, sent) in parcels.iter().zip(under_way) {
            let acked = async {
                let ack = match sent?.await {
                    Err(error) => return Err(failed(&error)),
                    Ok(ack) => ack,
                };
                if ack.duplicate && parcel.about.delivery <= 1 {
                    // Never sent before, and yet known: an earlier message had this id and content, and this one was
                    // dropped.
                    publish(context, parcel, false).await?.await.map_err(|error| failed(&error))?;
                }
                Ok(Outcome::Delivered)
            };
            let acked = before(over.as_mut(), acked).await.unwrap_or_else(|| Err(silent()));
            outcomes.push(acked.unwrap_or_else(|outcome| outcome));
        }
        outcomes
    }

    async fn deliver_core(&self, client: &Client, parcels: &[Parcel]) -> Vec<Outcome> {
        let mut outcomes = Vec::with_capacity(parcels.len());
        for parcel in parcels {
            outcomes.push(match encode::headers(parcel) {
                _ if !encode::is_subject(&parcel.destination) => no_subject(parcel),
                Err(reason) => Outcome::rejected(reason),
                Ok(headers) => {
                    let (subject, body) = (parcel.destination.clone(), parcel.body.clone().into());
                    match client.publish_with_headers(subject, headers, body).await {
                        Ok(()) => Outcome::Delivered,
                        Err(error) => Outcome::down(error.to_string()),
                    }
                }
            });
        }
        if let Err(error) = client.flush().await {
            let down = Outcome::down(error.to_string());
            outcomes
                .iter_mut()
                .filter(|outcome| **outcome == Outcome::Delivered)
                .for_each(|o| *o = down.clone());
        }
        outcomes
    }

    async fn deliver_all(&self, parcels: &[Parcel]) -> Vec<Outcome> {
        let open = match self.open().await {
            Ok(open) => open,
            Err(why) => return vec![Outcome::down(why); parcels.len()],
        };
        match self.config.mode {
            NatsMode::Core => self.deliver_core(&open.client, parcels).await,
            NatsMode::Jetstream => self.deliver_acked(&open.context, parcels).await,
        }
    }
}

#[async_trait]
impl Sink for NatsSink {
    fn kind(&self) -> &'static str {
        "nats"
    }

    async fn check(&self, destination: Option<&str>) -> Result<Vec<String>, CheckError> {
        let looked = timeout(self.patience, async {
            let open = self.open().await.map_err(CheckError::Unreachable)?;
            match self.config.mode {
                NatsMode::Core => Ok(vec![CORE.to_owned()]),
                NatsMode::Jetstream => check::check(&open.context, &self.config, destination).await,
            }
        });
        let looked = looked.await.unwrap_or_else(|_| Err(CheckError::Unreachable("no answer".to_owned())));
        if matches!(looked, Err(CheckError::Unreachable(_))) {
            self.forget().await;
        }
        looked
    }

    async fn deliver(&self, parcels: &[Parcel]) -> Vec<Outcome> {
        let delivered = timeout(self.patience, self.deliver_all(parcels)).await;
        let outcomes = delivered.unwrap_or_else(|_| {
            vec![Outcome::down(format!("no ack within {:?}", self.patience)); parcels.len()]
        });
        if outcomes.iter().any(|outcome| matches!(outcome, Outcome::Unavailable { .. })) {
            // A client that is connected again by itself is as good; one that is stuck is not.
            self.forget().await;
        }
        outcomes
    }

    async fn close(&self) -> Result<(), String> {
        match self.open.lock().await.take() {
            None => Ok(()),
            Some(open) => open.client.drain().await.map_err(|error| error.to_string()),
        }
    }
}

fn publication(parcel: &Parcel) -> Result<PublishMessage, String> {
    if !encode::is_subject(&parcel.destination) {
        return Err(format!("`{}` is no subject that can be published to", parcel.destination));
    }
    let headers = encode::headers(parcel)?;
    Ok(PublishMessage::build().headers(headers).payload(parcel.body.clone().into()))
}

/// Sends one publication, with the id that a stream drops repeats by or without it.
async fn publish(context: &jetstream::Context, parcel: &Parcel, with_id: bool) -> UnderWay {
    let mut publication = publication(parcel).map_err(Outcome::rejected)?;
    if with_id {
        publication = publication.message_id(&parcel.about.identity);
    }
    context.send_publish(parcel.destination.clone(), publication).await.map_err(|error| failed(&error))
}

/// The output of `work`, unless the time is over and it is not there yet.
async fn before<T>(over: Pin<&mut Sleep>, work: impl Future<Output = T>) -> Option<T> {
    tokio::select! {
        biased;
        output = work => Some(output),
        () = over => None,
    }
}

fn no_subject(parcel: &Parcel) -> Outcome {
    Outcome::rejected(format!("`{}` is no subject that can be published to", parcel.destination))
}

/// What a refusal means for one message.
fn failed(error: &PublishError) -> Outcome {
    let text = error.to_string();
    match error.kind() {
        PublishErrorKind::MaxPayloadExceeded => Outcome::rejected(text),
        PublishErrorKind::StreamNotFound => Outcome::failed(text),
        // The stream's own bound on one message; its other refusals are of the stream as a whole.
        PublishErrorKind::Other if text.contains("message size exceeds maximum") => Outcome::rejected(text),
        _ => Outcome::down(text),
    }
}
