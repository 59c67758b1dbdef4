//! Producing: delivered is an ack of all replicas in sync to an idempotent producer.

use super::{KafkaConfig, check, encode};
use crate::{CheckError, Outcome, Parcel, Sink};
use async_trait::async_trait;
use futures_util::future::join_all;
use rdkafka::{
    ClientConfig,
    error::{KafkaError, RDKafkaErrorCode},
    producer::{DeliveryFuture, FutureProducer, FutureRecord, Producer},
};
use secrecy::ExposeSecret;
use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

/// A cluster.
pub(crate) struct KafkaSink {
    config: KafkaConfig,
    /// How long a record may wait for its ack: less than the time that a call has, so that none is sent after its
    /// message was given back.
    patience: Duration,
    open: Mutex<Option<FutureProducer>>,
}

// === impl KafkaSink ===

impl KafkaSink {
    pub(crate) fn new(config: KafkaConfig, deadline: Duration) -> Result<Self, String> {
        let sink = Self { config, patience: deadline.mul_f64(0.8), open: Mutex::new(None) };
        // Nothing is connected by this: it shows that the settings are understood.
        drop(sink.producer()?);
        Ok(sink)
    }

    /// The client's settings; the password is read anew.
    fn settings(&self) -> Result<ClientConfig, String> {
        let config = &self.config;
        let mut settings = ClientConfig::new();
        settings
            .set("bootstrap.servers", config.brokers.join(","))
            .set("client.id", "delayq-forwarder")
            .set("acks", "all")
            .set("enable.idempotence", "true")
            .set("message.timeout.ms", self.patience.as_millis().to_string())
            .set("socket.timeout.ms", self.patience.as_millis().clamp(10, 60_000).to_string())
            .set("reconnect.backoff.max.ms", "1000")
            .set("linger.ms", config.linger.as_secs_f64().mul_add(1000.0, 0.0).to_string())
            .set("message.max.bytes", config.most_bytes.to_string())
            .set("queue.buffering.max.messages", "200000")
            .set("security.protocol", self.protocol());
        if config.java_partitions {
            settings.set("partitioner", "murmur2_random");
        }
        if let Some(ca) = &config.ca {
            settings.set("ssl.ca.location", ca.display().to_string());
        }
        if let (Some(mechanism), Some(username), Some(password)) =
            (&config.mechanism, &config.username, &config.password)
        {
            settings.set("sasl.mechanisms", mechanism).set("sasl.username", username);
            settings.set("sasl.password", password.reveal()?.expose_secret());
        }
        Ok(settings)
    }

    fn protocol(&self) -> &'static str {
        match (self.config.tls, self.config.mechanism.is_some()) {
            (false, false) => "plaintext",
            (true, false) => "ssl",
            (false, true) => "sasl_plaintext",
            (true, true) => "sasl_ssl",
        }
    }

    fn producer(&self) -> Result<FutureProducer, String> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(producer) = open.as_ref() {
            return Ok(producer.clone());
        }
        let producer: FutureProducer = self.settings()?.create().map_err(|error| error.to_string())?;
        *open = Some(producer.clone());
        Ok(producer)
    }

    /// A producer that failed for ever (its sequence numbers do not fit any more) is replaced.
    fn forget_if_fatal(&self, producer: &FutureProducer) {
        if let Some((code, why)) = producer.client().fatal_error() {
            tracing::warn!(?code, why, "the Kafka producer failed for ever: making a new one");
            *self.open.lock().unwrap_or_else(PoisonError::into_inner) = None;
        }
    }
}

#[async_trait]
impl Sink for KafkaSink {
    fn kind(&self) -> &'static str {
        "kafka"
    }

    async fn check(&self, destination: Option<&str>) -> Result<Vec<String>, CheckError> {
        let settings = self.settings().map_err(CheckError::Unreachable)?;
        let producer = self.producer().map_err(CheckError::Unreachable)?;
        check::check(&settings, &producer, destination, self.patience).await
    }

    async fn deliver(&self, parcels: &[Parcel]) -> Vec<Outcome> {
        let producer = match self.producer() {
            Ok(producer) => producer,
            Err(why) => return vec![Outcome::down(why); parcels.len()],
        };
        let sent: Vec<Result<DeliveryFuture, Outcome>> =
            parcels.iter().map(|parcel| send(&producer, parcel)).collect();
        let acked = sent.into_iter().map(async |sent| match sent {
            Err(outcome) => outcome,
            Ok(delivery) => match delivery.await {
                Ok(Ok(_)) => Outcome::Delivered,
                Ok(Err((error, _))) => failed(&error),
                Err(_) => Outcome::down("the producer was closed"),
            },
        });
        let outcomes = join_all(acked).await;
        self.forget_if_fatal(&producer);
        outcomes
    }

    async fn close(&self) -> Result<(), String> {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(producer) = open else { return Ok(()) };
        let flushed = tokio::task::spawn_blocking(move || producer.flush(Duration::from_secs(1))).await;
        flushed.map_err(|panic| panic.to_string())?.map_err(|error| error.to_string())
    }
}

fn send(producer: &FutureProducer, parcel: &Parcel) -> Result<DeliveryFuture, Outcome> {
    if !encode::is_topic(&parcel.destination) {
        return Err(Outcome::rejected(format!("`{}` is no name of a topic", parcel.destination)));
    }
    let mut record = FutureRecord::<[u8], [u8]>::to(&parcel.destination)
        .payload(parcel.body.as_slice())
        .headers(encode::headers(parcel))
        .timestamp(i64::try_from(parcel.about.ready.millis().get()).unwrap_or(i64::MAX));
    if let Some(key) = &parcel.key {
        record = record.key(key.as_bytes());
    }
    producer.send_result(record).map_err(|(error, _)| failed(&error))
}

/// What an error means for one record.
fn failed(error: &KafkaError) -> Outcome {
    let reason = error.to_string();
    match error.rdkafka_error_code() {
        Some(
            RDKafkaErrorCode::MessageSizeTooLarge
            | RDKafkaErrorCode::InvalidMessageSize
            | RDKafkaErrorCode::InvalidMessage
            | RDKafkaErrorCode::InvalidRecord
            | RDKafkaErrorCode::InvalidTopic
            | RDKafkaErrorCode::PolicyViolation,
        ) => Outcome::Rejected { reason },
        Some(
            RDKafkaErrorCode::UnknownTopic
            | RDKafkaErrorCode::UnknownTopicOrPartition
            | RDKafkaErrorCode::UnknownPartition
            | RDKafkaErrorCode::TopicAuthorizationFailed,
        ) => Outcome::failed(reason),
        _ => Outcome::down(reason),
    }
}
