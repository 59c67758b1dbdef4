//! One pipeline per batch, one answer per parcel.

use super::RedisStreamConfig;
use super::encode::command;
use crate::sinks::redis::check;
use crate::sinks::redis::link::RedisLink;
use crate::{CheckError, Parcel, Sink};
use async_trait::async_trait;
use delayq_service::brokers::{Outcome, Outcomes};
use delayq_service::config::RedisConfig;
use redis::Value;
use std::sync::Arc;
use std::time::Duration;

pub(crate) struct RedisStreamSink {
    config: RedisStreamConfig,
    link: RedisLink,
}

// === impl RedisStreamSink ===

impl RedisStreamSink {
    pub(crate) fn new(
        config: RedisStreamConfig,
        own: &RedisConfig,
        timeout: Duration,
    ) -> Result<Self, String> {
        Ok(Self { link: RedisLink::new(config.redis.as_ref().unwrap_or(own), timeout)?, config })
    }
}

#[async_trait]
impl Sink for RedisStreamSink {
    async fn check(&self, destination: Option<&str>) -> Result<Vec<String>, CheckError> {
        let mut warnings = check::check(&self.link, destination, "stream", self.config.create).await?;
        if let Some(length) = self.config.max_len {
            warnings.push(format!("max_len = {length} discards unread entries, as configured"));
        }
        Ok(warnings)
    }

    async fn deliver(&self, parcels: &[Parcel], outcomes: &Arc<Outcomes>) {
        let command = |parcel: &Parcel| command(&self.config, parcel);
        let answered = |parcel: &Parcel, answer| match answer {
            Value::Nil => missing(&parcel.destination),
            _ => Outcome::Delivered,
        };
        self.link.deliver(parcels, outcomes, command, answered).await;
    }
}

fn missing(key: &str) -> Outcome {
    Outcome::down(format!("the stream `{key}` does not exist, and create is false"))
}
