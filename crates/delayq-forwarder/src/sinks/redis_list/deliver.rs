//! One pipeline a batch: one answer a parcel.

use super::{RedisListConfig, check, config::Element, encode};
use crate::{
    CheckError, Outcome, Outcomes, Parcel, Sink,
    sinks::{redis_link::RedisLink, redis_stream},
};
use async_trait::async_trait;
use delayq_service::config::RedisConfig;
use std::{sync::Arc, time::Duration};

/// Lists of one Redis.
pub(crate) struct RedisListSink {
    config: RedisListConfig,
    link: RedisLink,
}

// === impl RedisListSink ===

impl RedisListSink {
    pub(crate) fn new(config: RedisListConfig, own: &RedisConfig, timeout: Duration) -> Result<Self, String> {
        let redis = config.redis.clone().unwrap_or_else(|| own.clone());
        Ok(Self { link: RedisLink::new(redis, timeout), config })
    }
}

#[async_trait]
impl Sink for RedisListSink {
    fn kind(&self) -> &'static str {
        "redis-list"
    }

    async fn check(&self, destination: Option<&str>) -> Result<Vec<String>, CheckError> {
        let mut warnings = redis_stream::look_at(&self.link, destination, "list", true).await?;
        if self.config.element == Element::Payload {
            warnings.push(check::PAYLOAD_ONLY.to_owned());
        }
        Ok(warnings)
    }

    async fn deliver(&self, parcels: &[Parcel], outcomes: &Arc<Outcomes>) {
        let command = |parcel: &Parcel| encode::command(&self.config, parcel);
        self.link.deliver(parcels, outcomes, command, |_, _| Outcome::Delivered).await;
    }

    async fn close(&self) -> Result<(), String> {
        Ok(())
    }
}
