//! One pipeline per batch, one answer per parcel.

use super::encode::command;
use super::link::RedisLink;
use super::{Element, RedisForm, RedisSinkConfig, check};
use crate::{CheckError, Parcel, Sink};
use async_trait::async_trait;
use delayq_service::brokers::{Outcome, Outcomes};
use delayq_service::config::RedisConfig;
use redis::Value;
use std::sync::Arc;
use std::time::Duration;

pub(crate) struct RedisSink {
    config: RedisSinkConfig,
    link: RedisLink,
}

// === impl RedisSink ===

impl RedisSink {
    pub(crate) fn new(config: RedisSinkConfig, own: &RedisConfig, timeout: Duration) -> Result<Self, String> {
        Ok(Self { link: RedisLink::new(config.server.as_ref().unwrap_or(own), timeout)?, config })
    }
}

#[async_trait]
impl Sink for RedisSink {
    async fn check(&self, destination: Option<&str>) -> Result<Vec<String>, CheckError> {
        let RedisSinkConfig { form, element, create, max_len, .. } = self.config;
        let mut warnings = check::check(&self.link, destination, form.key_type(), create).await?;
        if let Some(length) = max_len {
            warnings.push(format!("max_len = {length} discards unread entries, as configured"));
        }
        if form != RedisForm::Stream && element == Element::Payload {
            warnings.push(
                "element = \"payload\" carries no id: a consumer cannot detect a message that is delivered \
                 twice after a fault"
                    .to_owned(),
            );
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
