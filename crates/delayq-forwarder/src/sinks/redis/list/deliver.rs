//! One push per parcel, one pipeline per batch.

use super::{Element, End, RedisListConfig};
use crate::sinks::record;
use crate::sinks::redis::check;
use crate::sinks::redis::link::RedisLink;
use crate::{CheckError, Parcel, Sink};
use async_trait::async_trait;
use delayq_service::brokers::{Outcome, Outcomes};
use delayq_service::config::RedisConfig;
use redis::Cmd;
use std::sync::Arc;
use std::time::Duration;

pub(crate) struct RedisListSink {
    config: RedisListConfig,
    link: RedisLink,
}

// === impl RedisListSink ===

impl RedisListSink {
    pub(crate) fn new(config: RedisListConfig, own: &RedisConfig, timeout: Duration) -> Result<Self, String> {
        Ok(Self { link: RedisLink::new(config.redis.as_ref().unwrap_or(own), timeout)?, config })
    }

    fn command(&self, parcel: &Parcel) -> Cmd {
        let push = match self.config.end {
            End::Right => "RPUSH",
            End::Left => "LPUSH",
        };
        let mut command = redis::cmd(push);
        command.arg(&parcel.destination);
        match self.config.element {
            Element::Payload => command.arg(&parcel.body[..]),
            Element::Record => command.arg(record::json(parcel)),
        };
        command
    }
}

#[async_trait]
impl Sink for RedisListSink {
    async fn check(&self, destination: Option<&str>) -> Result<Vec<String>, CheckError> {
        let mut warnings = check::check(&self.link, destination, "list", true).await?;
        if self.config.element == Element::Payload {
            warnings.push(
                "element = \"payload\" carries no id: a consumer cannot detect a message that is delivered \
                 twice after a fault"
                    .to_owned(),
            );
        }
        Ok(warnings)
    }

    async fn deliver(&self, parcels: &[Parcel], outcomes: &Arc<Outcomes>) {
        let command = |parcel: &Parcel| self.command(parcel);
        self.link.deliver(parcels, outcomes, command, |_, _| Outcome::Delivered).await;
    }
}
