//! One pipeline a batch: one answer a parcel.

use super::{RedisStreamConfig, check, encode::Fields};
use crate::{
    Blame, CheckError, Outcome, Parcel, Sink,
    sinks::redis_link::{LinkError, RedisLink},
};
use async_trait::async_trait;
use delayq_service::config::RedisConfig;
use redis::{Pipeline, Value};
use std::time::Duration;

/// Streams of one Redis.
pub(crate) struct RedisStreamSink {
    config: RedisStreamConfig,
    fields: Fields,
    link: RedisLink,
}

// === impl RedisStreamSink ===

impl RedisStreamSink {
    pub(crate) fn new(
        config: RedisStreamConfig,
        own: &RedisConfig,
        timeout: Duration,
    ) -> Result<Self, String> {
        let redis = config.redis.clone().unwrap_or_else(|| own.clone());
        Ok(Self { fields: Fields::new(&config)?, link: RedisLink::new(redis, timeout), config })
    }
}

#[async_trait]
impl Sink for RedisStreamSink {
    fn kind(&self) -> &'static str {
        "redis-stream"
    }

    async fn check(&self, destination: Option<&str>) -> Result<Vec<String>, CheckError> {
        let mut warnings = check::check(&self.link, destination, "stream", self.config.create).await?;
        if let Some(length) = self.config.max_len {
            warnings.push(format!(
                "max_len = {length} throws away entries that nobody has read yet, as asked for"
            ));
        }
        Ok(warnings)
    }

    async fn deliver(&self, parcels: &[Parcel]) -> Vec<Outcome> {
        let mut pipeline = Pipeline::with_capacity(parcels.len());
        for parcel in parcels {
            pipeline.add_command(self.fields.command(&self.config, parcel));
        }
        match self.link.run_all(&pipeline, parcels.len()).await {
            Err(error) => vec![failed(&error); parcels.len()],
            Ok(answers) => {
                let outcome = |(answer, parcel): (_, &Parcel)| match answer {
                    Ok(Value::Nil) => missing(&parcel.destination),
                    Ok(_) => Outcome::Delivered,
                    Err(error) => failed(&self.link.fault(&error)),
                };
                answers.into_iter().zip(parcels).map(outcome).collect()
            }
        }
    }

    async fn close(&self) -> Result<(), String> {
        Ok(())
    }
}

fn missing(key: &str) -> Outcome {
    Outcome::down(format!("the stream `{key}` does not exist, and create is false"))
}

/// What an error of Redis means for one parcel. The codes are those that Redis gives before it writes.
pub(in crate::sinks) fn failed(error: &LinkError) -> Outcome {
    let reason = error.sentence.clone();
    match error.code.as_deref() {
        // The key is something else, or nobody may write to it: others may be fine.
        Some("WRONGTYPE" | "NOPERM") => {
            Outcome::Unavailable { reason, retry_after: None, blame: Blame::Message }
        }
        Some("ERR") => Outcome::Rejected { reason },
        _ => Outcome::down(reason),
    }
}
