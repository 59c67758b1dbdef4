//! Publishing: delivered is an ack without a returned message, and nothing else.
//!
//! The client hands a returned message out with whichever confirm of the channel comes next, not with its own. So each
//! call has a channel to itself, and finds out by topic and id which of its parcels came back.

use super::{RabbitmqConfig, bound, check, connection::connect, encode};
use crate::{CheckError, Outcome, Parcel, Sink};
use async_trait::async_trait;
use futures_util::future::join_all;
use lapin::{
    Channel, Confirmation, Connection, PublisherConfirm,
    options::{BasicPublishOptions, ConfirmSelectOptions},
    types::AMQPValue,
};
use std::{collections::HashMap, sync::Arc, time::Duration};
use tokio::{
    sync::Mutex,
    time::{Instant, timeout_at},
};

/// A broker.
pub(crate) struct RabbitmqSink {
    config: RabbitmqConfig,
    /// A part of the time that a call has, so that a connection which is silent is thrown away by this sink.
    patience: Duration,
    open: Mutex<Open>,
}

#[derive(Default)]
struct Open {
    connection: Option<Arc<Connection>>,
    /// Channels that no call uses.
    free: Vec<Channel>,
}

/// A parcel under way: its confirm, or why it was not sent.
type UnderWay = Result<PublisherConfirm, Outcome>;

// === impl RabbitmqSink ===

impl RabbitmqSink {
    pub(crate) fn new(config: RabbitmqConfig, deadline: Duration) -> Self {
        Self { config, patience: deadline.mul_f64(0.8), open: Mutex::default() }
    }

    /// A channel that nobody else uses.
    async fn channel(&self) -> Result<Channel, String> {
        let mut open = self.open.lock().await;
        open.free.retain(|channel| channel.status().connected());
        if let Some(channel) = open.free.pop() {
            return Ok(channel);
        }
        let connection = match open.connection.as_ref().filter(|connection| connection.status().connected()) {
            Some(connection) => connection.clone(),
            None => {
                let connection = Arc::new(connect(&self.config).await?);
                *open = Open { connection: Some(connection.clone()), free: Vec::new() };
                connection
            }
        };
        drop(open);
        let sentence = |error: lapin::Error| error.to_string();
        let channel = connection.create_channel().await.map_err(sentence)?;
        channel.confirm_select(ConfirmSelectOptions::default()).await.map_err(sentence)?;
        Ok(channel)
    }

    async fn publish(&self, channel: &Channel, parcel: &Parcel) -> UnderWay {
        encode::routing_key(&self.config.exchange, &parcel.destination).map_err(Outcome::rejected)?;
        let options = BasicPublishOptions { mandatory: true, ..BasicPublishOptions::default() };
        let (exchange, key) = (self.config.exchange.as_str().into(), parcel.destination.as_str().into());
        let properties = encode::properties(parcel, self.config.priority);
        let published = channel.basic_publish(exchange, key, options, &parcel.body, properties).await;
        published.map_err(|error| Outcome::down(error.to_string()))
    }

    /// Sends all, then waits for the confirms. Gives back the channel where every confirm came.
    async fn deliver_by(&self, parcels: &[Parcel], deadline: Instant) -> (Vec<Outcome>, Option<Channel>) {
        let silent = || Outcome::down(format!("no confirm within {:?}", self.patience));
        let channel = match timeout_at(deadline, self.channel()).await {
            Ok(Ok(channel)) => channel,
            Ok(Err(why)) => return (vec![Outcome::down(why); parcels.len()], None),
            Err(_) => return (vec![silent(); parcels.len()], None),
        };
        // All at once: each waits until the client's own thread has written it, and together they go in few writes.
        let publishing = parcels.iter().map(async |parcel| {
            timeout_at(deadline, self.publish(&channel, parcel)).await.unwrap_or_else(|_| Err(silent()))
        });
        let under_way = join_all(publishing).await;
        let mut returned: HashMap<(String, String), Outcome> = HashMap::new();
        let (mut outcomes, mut whole) = (Vec::with_capacity(parcels.len()), true);
        for confirm in under_way {
            let confirmed = match confirm {
                Err(outcome) => Err(outcome),
                Ok(confirm) => match timeout_at(deadline, confirm).await {
                    Err(_) => Err(silent()),
                    Ok(Err(error)) => Err(Outcome::down(error.to_string())),
                    Ok(Ok(confirmation)) => Ok(confirmation),
                },
            };
            whole &= !matches!(confirmed, Err(Outcome::Unavailable { .. }));
            outcomes.push(
                confirmed.map_or_else(|outcome| outcome, |confirmation| judge(confirmation, &mut returned)),
            );
        }
        for (parcel, outcome) in parcels.iter().zip(&mut outcomes) {
            let place = (parcel.about.topic.clone(), parcel.about.id.clone());
            if let Some(unroutable) = returned.remove(&place) {
                *outcome = unroutable;
            }
        }
        bound::reject_larger(parcels, &mut outcomes);
        (outcomes, whole.then_some(channel))
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
        let (outcomes, channel) = self.deliver_by(parcels, Instant::now() + self.patience).await;
        let mut open = self.open.lock().await;
        match channel {
            Some(channel) => open.free.push(channel),
            None => *open = Open::default(),
        }
        outcomes
    }

    async fn close(&self) -> Result<(), String> {
        match std::mem::take(&mut *self.open.lock().await).connection {
            Some(connection) if connection.status().connected() => {
                connection.close(200, "closing".into()).await.map_err(|error| error.to_string())
            }
            _ => Ok(()),
        }
    }
}

/// What a confirm means, and notes the message that came back beside it: of this call, but of any parcel.
fn judge(confirmation: Confirmation, returned: &mut HashMap<(String, String), Outcome>) -> Outcome {
    let (outcome, back) = match confirmation {
        Confirmation::Ack(back) => (Outcome::Delivered, back),
        Confirmation::Nack(back) => {
            (Outcome::down("the broker refused it (nack): the queue is full or failing"), back)
        }
        Confirmation::NotRequested => (Outcome::down("the channel lost its confirms"), None),
    };
    if let Some(message) = back {
        let text = |name: &str| match message.delivery.properties.headers().as_ref()?.inner().get(name)? {
            AMQPValue::LongString(text) => Some(text.to_string()),
            _ => None,
        };
        let place = (text("delayq-topic").unwrap_or_default(), text("delayq-id").unwrap_or_default());
        let reason = format!("no queue takes it: {} {}", message.reply_code, message.reply_text);
        returned.insert(place, Outcome::failed(reason));
    }
    outcome
}
