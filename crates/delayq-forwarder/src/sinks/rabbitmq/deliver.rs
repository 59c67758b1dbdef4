//! Publishing: delivered is an ack without a returned message, and nothing else.

use super::{RabbitmqConfig, check, encode};
use crate::{CheckError, Outcome, Parcel, Sink};
use async_trait::async_trait;
use futures_util::future::join_all;
use lapin::{
    Channel, Confirmation, Connection, ConnectionProperties, PublisherConfirm,
    message::BasicReturnMessage,
    options::{BasicPublishOptions, ConfirmSelectOptions},
    tcp::OwnedTLSConfig,
    uri::{AMQPAuthority, AMQPQueryString, AMQPScheme, AMQPUri, AMQPUserInfo},
};
use secrecy::ExposeSecret;
use std::time::Duration;
use tokio::{sync::Mutex, time::timeout};

/// How long the broker may be silent before the connection counts as broken, in seconds.
const HEARTBEAT_SECS: u16 = 10;

/// A broker.
pub(crate) struct RabbitmqSink {
    config: RabbitmqConfig,
    /// A part of the time that a call has, so that a connection which is silent is thrown away by this sink.
    patience: Duration,
    open: Mutex<Option<Open>>,
}

#[derive(Clone)]
struct Open {
    connection: std::sync::Arc<Connection>,
    channel: Channel,
}

// === impl RabbitmqSink ===

impl RabbitmqSink {
    pub(crate) fn new(config: RabbitmqConfig, deadline: Duration) -> Self {
        Self { config, patience: deadline.mul_f64(0.8), open: Mutex::new(None) }
    }

    async fn channel(&self) -> Result<Channel, String> {
        let mut open = self.open.lock().await;
        if let Some(open) = open.as_ref().filter(|open| open.channel.status().connected()) {
            return Ok(open.channel.clone());
        }
        *open = None;
        let connection = connect(&self.config).await?;
        let sentence = |error: lapin::Error| error.to_string();
        let channel = connection.create_channel().await.map_err(sentence)?;
        channel.confirm_select(ConfirmSelectOptions::default()).await.map_err(sentence)?;
        *open = Some(Open { connection: std::sync::Arc::new(connection), channel: channel.clone() });
        Ok(channel)
    }

    async fn publish(&self, channel: &Channel, parcel: &Parcel) -> Result<PublisherConfirm, Outcome> {
        if parcel.destination.len() > 255 {
            return Err(Outcome::rejected("a routing key has at most 255 bytes"));
        }
        let options = BasicPublishOptions { mandatory: true, ..BasicPublishOptions::default() };
        let (exchange, key) = (self.config.exchange.as_str().into(), parcel.destination.as_str().into());
        let properties = encode::properties(parcel, self.config.priority);
        let published = channel.basic_publish(exchange, key, options, &parcel.body, properties).await;
        published.map_err(|error| Outcome::down(error.to_string()))
    }

    async fn deliver_all(&self, parcels: &[Parcel]) -> Vec<Outcome> {
        let channel = match self.channel().await {
            Ok(channel) => channel,
            Err(why) => return vec![Outcome::down(why); parcels.len()],
        };
        let mut under_way = Vec::with_capacity(parcels.len());
        for parcel in parcels {
            under_way.push(self.publish(&channel, parcel).await);
        }
        let confirmed = under_way.into_iter().map(async |publish| match publish {
            Err(outcome) => outcome,
            Ok(confirm) => match confirm.await {
                Ok(confirmation) => outcome(confirmation),
                Err(error) => Outcome::down(error.to_string()),
            },
        });
        join_all(confirmed).await
    }
}

#[async_trait]
impl Sink for RabbitmqSink {
    fn kind(&self) -> &'static str {
        "rabbitmq"
    }

    async fn check(&self, destination: Option<&str>) -> Result<Vec<String>, CheckError> {
        check::check(&self.config, destination).await
    }

    async fn deliver(&self, parcels: &[Parcel]) -> Vec<Outcome> {
        match timeout(self.patience, self.deliver_all(parcels)).await {
            Ok(outcomes) => outcomes,
            Err(_) => {
                *self.open.lock().await = None;
                vec![Outcome::down(format!("no confirm within {:?}", self.patience)); parcels.len()]
            }
        }
    }

    async fn close(&self) -> Result<(), String> {
        match self.open.lock().await.take() {
            None => Ok(()),
            Some(open) => {
                open.connection.close(200, "closing".into()).await.map_err(|error| error.to_string())
            }
        }
    }
}

/// Connects. The password and the certificates are read anew.
pub(super) async fn connect(config: &RabbitmqConfig) -> Result<Connection, String> {
    let password = match &config.password {
        None => "guest".to_owned(),
        Some(secret) => secret.reveal()?.expose_secret().to_owned(),
    };
    let uri = AMQPUri {
        scheme: if config.tls { AMQPScheme::AMQPS } else { AMQPScheme::AMQP },
        authority: AMQPAuthority {
            userinfo: AMQPUserInfo { username: config.username.clone(), password },
            host: config.server.host().to_owned(),
            port: config.server.port(),
        },
        vhost: config.vhost.clone(),
        query: AMQPQueryString { heartbeat: Some(HEARTBEAT_SECS), ..AMQPQueryString::default() },
    };
    let cert_chain = match &config.ca {
        None => None,
        Some(path) => Some(
            std::fs::read_to_string(path)
                .map_err(|error| format!("the certificates {} cannot be read: {error}", path.display()))?,
        ),
    };
    let tls = OwnedTLSConfig { identity: None, cert_chain };
    let properties = ConnectionProperties::default().with_connection_name("delayq-forwarder".into());
    let runtime = lapin::runtime::default_runtime().map_err(|error| error.to_string())?;
    Connection::connect_uri_with_config(uri, properties, tls, runtime)
        .await
        .map_err(|error| format!("{}: {error}", config.server))
}

/// What a confirm means: an unroutable message is acked too, and comes back beside the ack.
fn outcome(confirmation: Confirmation) -> Outcome {
    match confirmation {
        Confirmation::Ack(None) => Outcome::Delivered,
        Confirmation::Ack(Some(returned)) => unroutable(&returned),
        Confirmation::Nack(_) => Outcome::down("the broker refused it (nack): the queue is full or failing"),
        Confirmation::NotRequested => Outcome::down("the channel lost its confirms"),
    }
}

fn unroutable(returned: &BasicReturnMessage) -> Outcome {
    Outcome::failed(format!("no queue takes it: {} {}", returned.reply_code, returned.reply_text))
}
