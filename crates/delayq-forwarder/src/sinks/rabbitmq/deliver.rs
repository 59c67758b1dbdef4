//! Publishing: a message is delivered when acked and not returned.
//!
//! Each call has a channel to itself: `confirms.rs` explains why.

use super::confirms::{Confirms, Published};
use super::{RabbitmqConfig, check, encode};
use crate::{CheckError, Outcome, Outcomes, Parcel, Sink};
use async_trait::async_trait;
use delayq_service::brokers::rabbitmq_key;
use futures_util::future::join_all;
use lapin::options::{BasicPublishOptions, ConfirmSelectOptions};
use lapin::{Channel, Connection};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout_at};

pub(crate) struct RabbitmqSink {
    config: RabbitmqConfig,
    /// Shorter than the timeout of a call, so that this sink replaces a silent connection itself.
    patience: Duration,
    open: Mutex<Channels>,
}

#[derive(Default)]
struct Channels {
    connection: Option<Arc<Connection>>,
    free: Vec<Channel>,
}

// === impl RabbitmqSink ===

impl RabbitmqSink {
    pub(crate) fn new(config: RabbitmqConfig, deadline: Duration) -> Self {
        Self { config, patience: deadline.mul_f64(0.8), open: Mutex::default() }
    }

    async fn channel(&self) -> Result<Channel, String> {
        let mut open = self.open.lock().await;
        open.free.retain(|channel| channel.status().connected());
        if let Some(channel) = open.free.pop() {
            return Ok(channel);
        }
        let connection = match open.connection.as_ref().filter(|connection| connection.status().connected()) {
            Some(connection) => connection.clone(),
            None => {
                let connection = Arc::new(self.config.access().connect("delayq-forwarder").await?);
                *open = Channels { connection: Some(connection.clone()), free: Vec::new() };
                connection
            }
        };
        drop(open);
        let sentence = |error: lapin::Error| error.to_string();
        let channel = connection.create_channel().await.map_err(sentence)?;
        channel.confirm_select(ConfirmSelectOptions::default()).await.map_err(sentence)?;
        Ok(channel)
    }

    async fn publish(&self, channel: &Channel, parcel: &Parcel) -> Published {
        rabbitmq_key(&self.config.exchange, &parcel.destination).map_err(Outcome::rejected)?;
        let options = BasicPublishOptions { mandatory: true, ..BasicPublishOptions::default() };
        let (exchange, key) = (self.config.exchange.as_str().into(), parcel.destination.as_str().into());
        let properties = encode::properties(parcel, self.config.priority);
        let published = channel.basic_publish(exchange, key, options, &parcel.body, properties).await;
        published.map_err(|error| Outcome::down(error.to_string()))
    }

    /// Keeps the channel if every confirm arrived.
    async fn deliver_by(
        &self,
        parcels: &[Parcel],
        outcomes: &Outcomes,
        deadline: Instant,
    ) -> Option<Channel> {
        let silent = Outcome::silent(format!("no confirm within {:?}", self.patience));
        let channel = match timeout_at(deadline, self.channel()).await {
            Ok(Ok(channel)) => channel,
            Ok(Err(why)) => {
                outcomes.put_rest(&Outcome::down(why));
                return None;
            }
            Err(_) => {
                outcomes.put_rest(&Outcome::down(format!("no channel within {:?}", self.patience)));
                return None;
            }
        };
        // Concurrent publishing shares writes: each publish waits until the client's own thread has written the frame.
        let publishing = parcels.iter().map(async |parcel| {
            timeout_at(deadline, self.publish(&channel, parcel)).await.unwrap_or_else(|_| Err(silent.clone()))
        });
        let published = join_all(publishing).await;
        let whole = Confirms::new(parcels, outcomes, silent).collect(published, deadline).await;
        whole.then_some(channel)
    }
}

#[async_trait]
impl Sink for RabbitmqSink {
    async fn check(&self, destination: Option<&str>) -> Result<Vec<String>, CheckError> {
        check::check(&self.config, destination).await
    }

    async fn deliver(&self, parcels: &[Parcel], outcomes: &Arc<Outcomes>) {
        let channel = self.deliver_by(parcels, outcomes, Instant::now() + self.patience).await;
        let mut open = self.open.lock().await;
        match channel {
            Some(channel) => open.free.push(channel),
            None => *open = Channels::default(),
        }
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
