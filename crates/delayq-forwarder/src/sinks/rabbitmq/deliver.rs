//! Publishing: a message is delivered when acked and not returned.
//!
//! Each call has a channel to itself, as publishing demands.

use super::{RabbitmqConfig, check, encode};
use crate::{CheckError, Parcel, Sink};
use async_trait::async_trait;
use delayq_service::brokers::{Outcome, Outcomes, close_rabbitmq, publish_rabbitmq, rabbitmq_words};
use lapin::options::ConfirmSelectOptions;
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
                let connection = Arc::new(self.config.access.connect("delayq-forwarder").await?);
                *open = Channels { connection: Some(connection.clone()), free: Vec::new() };
                connection
            }
        };
        drop(open);
        let sentence = |error: lapin::Error| rabbitmq_words(&error);
        let channel = connection.create_channel().await.map_err(sentence)?;
        channel.confirm_select(ConfirmSelectOptions::default()).await.map_err(sentence)?;
        Ok(channel)
    }

    /// Keeps the channel if every confirm arrived.
    async fn deliver_by(
        &self,
        parcels: &[Parcel],
        outcomes: &Outcomes,
        deadline: Instant,
    ) -> Option<Channel> {
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
        let letters: Vec<_> = parcels.iter().map(|parcel| encode::letter(parcel, &self.config)).collect();
        let whole = publish_rabbitmq(&channel, &letters, outcomes, (deadline, self.patience)).await;
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
            Some(connection) => close_rabbitmq(&connection).await,
            None => Ok(()),
        }
    }
}
