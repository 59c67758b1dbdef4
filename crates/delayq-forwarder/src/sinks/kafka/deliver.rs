//! Producing: a message is delivered when all in-sync replicas have acked the record of an idempotent producer.

use super::{KafkaConfig, check, encode};
use crate::{CheckError, Parcel, Sink};
use async_trait::async_trait;
use delayq_service::brokers::{KafkaPublisher, Outcome, Outcomes, kafka_topic};
use rdkafka::ClientConfig;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

pub(crate) struct KafkaSink {
    config: KafkaConfig,
    /// Maximum wait of a record for its ack: shorter than the timeout of a call, so that no record is sent after its
    /// message was released.
    patience: Duration,
    open: Mutex<Option<KafkaPublisher>>,
}

// === impl KafkaSink ===

impl KafkaSink {
    pub(crate) fn new(config: KafkaConfig, deadline: Duration) -> Result<Self, String> {
        let sink = Self { config, patience: deadline.mul_f64(0.8), open: Mutex::new(None) };
        // Connects nothing, but validates the settings.
        drop(sink.open()?);
        Ok(sink)
    }

    /// Reads the password again.
    fn settings(&self) -> Result<ClientConfig, String> {
        let config = &self.config;
        let mut settings = config.access.settings("delayq-forwarder")?;
        settings
            .set("message.timeout.ms", self.patience.as_millis().to_string())
            .set("socket.timeout.ms", self.patience.as_millis().clamp(10, 60_000).to_string())
            .set("linger.ms", "1")
            // As the Java client chooses partitions.
            .set("partitioner", "murmur2_random")
            .set("message.max.bytes", config.max_bytes.to_string())
            .set("queue.buffering.max.messages", "200000");
        Ok(settings)
    }

    fn open(&self) -> Result<KafkaPublisher, String> {
        let mut slot = self.slot();
        if let Some(open) = slot.as_ref() {
            return Ok(open.clone());
        }
        let open = KafkaPublisher::new(self.settings()?)?;
        *slot = Some(open.clone());
        Ok(open)
    }

    /// The next call creates another.
    fn forget_if_useless(&self, open: &KafkaPublisher) {
        if open.is_useless() {
            *self.slot() = None;
        }
    }

    fn slot(&self) -> MutexGuard<'_, Option<KafkaPublisher>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Sink for KafkaSink {
    async fn check(&self, destination: Option<&str>) -> Result<Vec<String>, CheckError> {
        let settings = self.settings().map_err(CheckError::Unreachable)?;
        let open = self.open().map_err(CheckError::Unreachable)?;
        let explain = |why| CheckError::Unreachable(self.config.access.explain(why));
        let asked = check::ask(&open, self.patience).await.map_err(explain);
        let checked = match (asked, destination) {
            (Err(error), _) => Err(error),
            (Ok(_), None) => Ok(Vec::new()),
            (Ok(metadata), Some(topic)) => check::check(metadata, &settings, topic, self.patience).await,
        };
        if checked.is_err() {
            self.forget_if_useless(&open);
        }
        checked
    }

    async fn deliver(&self, parcels: &[Parcel], outcomes: &Arc<Outcomes>) {
        let open = match self.open() {
            Ok(open) => open,
            Err(why) => return outcomes.put_rest(&Outcome::down(why)),
        };
        for (index, parcel) in parcels.iter().enumerate() {
            match kafka_topic(&parcel.destination) {
                Ok(()) => open.publish(encode::letter(parcel), outcomes, index),
                Err(why) => outcomes.put(index, Outcome::rejected(why)),
            }
        }
        outcomes.complete().await;
        self.forget_if_useless(&open);
    }

    async fn close(&self) -> Result<(), String> {
        let Some(open) = self.slot().take() else { return Ok(()) };
        let flushed = tokio::task::spawn_blocking(move || open.flush(Duration::from_secs(1))).await;
        flushed.map_err(|panic| panic.to_string())?
    }
}
