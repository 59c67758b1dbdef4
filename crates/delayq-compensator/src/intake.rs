//! The intake: topics of Kafka, queues of RabbitMQ and streams of NATS that producers publish to, as a fallback or always.
//!
//! ```text
//!                     ┌──────────── back off ◄── Redis is unavailable: nothing is taken, all stays in order
//!                     ▼                 │
//! next records ─► read ─► put · cancel · reschedule ─► done ─────► settled: committed or acked
//!    ▲                │                 └─► rejected ─┐
//!    └────────────────└─► unreadable ─────────────────┴─► dead destination, confirmed ─► settled
//! ```
//! A record is settled after Redis's answer alone, so it is carried out at least once, and by its id exactly one message
//! comes of it. Records of one message are carried out in the order of their partition, queue or stream.

mod config;
mod health;
mod kafka;
mod look;
mod metrics;
mod nats;
mod rabbitmq;
mod read;
mod record;
mod source;
mod taking;

use crate::codes::INTAKE;
use crate::source_metrics::SourcesMetrics;
use crate::writes::Carrier;
use delayq::Client;
use delayq_service::{Fault, Readiness, Shutdown, Tasks};
use health::Health;
use metrics::IntakesMetrics;
use source::Source;
use std::collections::BTreeMap;
use taking::{Intake, Settled, Takes, Waiting};

pub use config::IntakeConfig;
pub use kafka::KafkaIntakeConfig;
pub use look::{IntakeFault, IntakeLook};
pub use nats::NatsIntakeConfig;
pub use rabbitmq::RabbitmqIntakeConfig;

/// What intakes work with.
pub struct IntakeDeps {
    /// The deployment.
    pub client: Client,
    /// Where they register their metrics.
    pub metrics: SourcesMetrics,
    /// Where they report whether they take in, as the condition `intake`.
    pub readiness: Readiness,
}

/// Intakes that are ready to run.
pub struct Intakes(Vec<(String, Box<dyn Takes>)>);

/// Creates the intakes by their names. Brokers and Redis may be unavailable.
///
/// # Errors
/// Settings that cannot be used, or a broker whose client this program was built without.
pub fn build_intakes(configs: &BTreeMap<String, IntakeConfig>, deps: &IntakeDeps) -> Result<Intakes, Fault> {
    let metrics = IntakesMetrics::register(&deps.metrics);
    if configs.is_empty() {
        return Ok(Intakes(Vec::new()));
    }
    let health = Health::new(&deps.readiness, configs.keys());
    let build = |(name, config): (&String, &IntakeConfig)| {
        let parts = Parts { name, config, deps, metrics: &metrics, health: &health };
        let takes = parts.build().map_err(|why| Fault::new(&INTAKE, format!("[intake.{name}]: {why}")))?;
        Ok((name.clone(), takes))
    };
    configs.iter().map(build).collect::<Result<_, Fault>>().map(Intakes)
}

/// Looks at what an intake reads, and where its dead records go. Nothing is taken, and nothing is created.
///
/// # Errors
/// What keeps a compensator from taking in.
pub async fn look_at_intake(config: &IntakeConfig) -> Result<IntakeLook, IntakeFault> {
    match config {
        #[cfg(feature = "intake-kafka")]
        IntakeConfig { kafka: Some(kafka), dead, .. } => kafka::look(kafka, dead).await,
        #[cfg(not(feature = "intake-kafka"))]
        IntakeConfig { kafka: Some(_), .. } => Err(IntakeFault::Unknown(without("kafka"))),
        #[cfg(feature = "intake-nats")]
        IntakeConfig { nats: Some(nats), dead, .. } => nats::look(nats, dead).await,
        #[cfg(not(feature = "intake-nats"))]
        IntakeConfig { nats: Some(_), .. } => Err(IntakeFault::Unknown(without("nats"))),
        #[cfg(feature = "intake-rabbitmq")]
        IntakeConfig { rabbitmq: Some(rabbitmq), dead, .. } => rabbitmq::look(rabbitmq, dead).await,
        #[cfg(not(feature = "intake-rabbitmq"))]
        IntakeConfig { rabbitmq: Some(_), .. } => Err(IntakeFault::Unknown(without("rabbitmq"))),
        _ => Err(IntakeFault::Unusable("it has no kind".to_owned())),
    }
}

/// What one intake is made of.
struct Parts<'p> {
    name: &'p str,
    config: &'p IntakeConfig,
    deps: &'p IntakeDeps,
    metrics: &'p IntakesMetrics,
    health: &'p Health,
}

// === impl Intakes ===

impl Intakes {
    /// Starts them.
    pub fn run(self, tasks: &Tasks) {
        for (name, takes) in self.0 {
            let shutdown: Shutdown = tasks.shutdown().clone();
            tasks.spawn(format!("intake {name}"), takes.run(shutdown));
        }
    }
}

// === impl Parts ===

impl Parts<'_> {
    fn build(&self) -> Result<Box<dyn Takes>, String> {
        match self.config {
            #[cfg(feature = "intake-kafka")]
            IntakeConfig { kafka: Some(kafka), dead, .. } => {
                Ok(self.over(kafka::KafkaSource::new(kafka.clone(), dead)?))
            }
            #[cfg(not(feature = "intake-kafka"))]
            IntakeConfig { kafka: Some(_), .. } => Err(without("kafka")),
            #[cfg(feature = "intake-nats")]
            IntakeConfig { nats: Some(nats), dead, in_flight, .. } => {
                Ok(self.over(nats::NatsSource::new(nats.clone(), dead, *in_flight)))
            }
            #[cfg(not(feature = "intake-nats"))]
            IntakeConfig { nats: Some(_), .. } => Err(without("nats")),
            #[cfg(feature = "intake-rabbitmq")]
            IntakeConfig { rabbitmq: Some(rabbitmq), dead, in_flight, .. } => {
                Ok(self.over(rabbitmq::RabbitmqSource::new(rabbitmq.clone(), dead, *in_flight)))
            }
            #[cfg(not(feature = "intake-rabbitmq"))]
            IntakeConfig { rabbitmq: Some(_), .. } => Err(without("rabbitmq")),
            _ => Err("it has no kind".to_owned()),
        }
    }

    fn over<S: Source + 'static>(&self, source: S) -> Box<dyn Takes> {
        Box::new(Intake {
            name: self.name.to_owned(),
            config: self.config.clone(),
            source,
            carrier: Carrier::new(self.deps.client.clone()),
            metrics: self.metrics.of(self.name),
            health: self.health.clone(),
            waiting: Waiting::default(),
            settled: Settled::default(),
        })
    }
}

#[cfg(not(all(feature = "intake-kafka", feature = "intake-nats", feature = "intake-rabbitmq")))]
fn without(kind: &str) -> String {
    format!("this program was built without the intake {kind}: build with --features intake-{kind}")
}
