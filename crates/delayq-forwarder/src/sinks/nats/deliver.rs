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
use futures_util::future::join_all;
use secrecy::ExposeSecret;
use std::time::Duration;
use tokio::{
    sync::Mutex,
    time::{timeout, timeout_at},
};

const CORE: &str = "mode = core delivers at most once: what nobody listens to, and what is on its way when a connection breaks, is lost";

/// A server or cluster.
pub(crate) struct NatsSink {
    config: NatsConfig,
    /// A part of the time that a call has, so that a connection which is silent is thrown away by this sink.
    patience: Duration,
    open: Mutex<Option<Client>>,
}

// === impl NatsSink ===

impl NatsSink {
    pub(crate) fn new(config: NatsConfig, deadline: Duration) -> Self {
        Self { config, patience: deadline.mul_f64(0.8), open: Mutex::new(None) }
    }

    async fn client(&self) -> Result<Client, String> {
        let mut open = self.open.lock().await;
        if let Some(client) = open.as_ref() {
            return Ok(client.clone());
        }
        let client = self.options().await?.connect(self.config.servers.as_slice()).await;
        let client = client.map_err(|error| format!("{}: {error}", self.config.servers.join(", ")))?;
        *open = Some(client.clone());
        Ok(client)
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

    async fn publish(&self, context: &jetstream::Context, parcel: &Parcel) -> Outcome {
        let sent = match publication(parcel) {
            Err(reason) => return Outcome::rejected(reason),
            Ok(publication) => {
                let publication = publication.message_id(&parcel.about.identity);
                context.send_publish(parcel.destination.clone(), publication).await
            }
        };
        let ack = match acked(sent).await {
            Err(error) => return failed(&error),
            Ok(ack) => ack,
        };
        if !ack.duplicate || parcel.about.delivery > 1 {
            return Outcome::Delivered;
        }
        // Never sent before, and yet known: an earlier message had this id and content, and this one was dropped.
        let Ok(publication) = publication(parcel) else { return Outcome::Delivered };
        match acked(context.send_publish(parcel.destination.clone(), publication).await).await {
            Ok(_) => Outcome::Delivered,
            Err(error) => failed(&error),
        }
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
        let client = match self.client().await {
            Ok(client) => client,
            Err(why) => return vec![Outcome::down(why); parcels.len()],
        };
        match self.config.mode {
            NatsMode::Core => self.deliver_core(&client, parcels).await,
            NatsMode::Jetstream => {
                let context = self.context(client);
                let by = tokio::time::Instant::now() + self.patience.mul_f64(0.9);
                let publish = async |parcel| {
                    let published = timeout_at(by, self.publish(&context, parcel)).await;
                    published.unwrap_or_else(|_| Outcome::down(format!("no ack within {:?}", self.patience)))
                };
                join_all(parcels.iter().map(publish)).await
            }
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
            let client = self.client().await.map_err(CheckError::Unreachable)?;
            match self.config.mode {
                NatsMode::Core => Ok(vec![CORE.to_owned()]),
                NatsMode::Jetstream => check::check(&self.context(client), &self.config, destination).await,
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
            Some(client) => client.drain().await.map_err(|error| error.to_string()),
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

async fn acked(
    sent: Result<PublishAckFuture, PublishError>,
) -> Result<jetstream::publish::PublishAck, PublishError> {
    sent?.await
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
