//! The intake: topics of Kafka, queues of RabbitMQ and streams of NATS that producers publish to, as a fallback or always.
//!
//! ```text
//!                     ┌──────────── back off ◄── Redis is unavailable: nothing is taken, all stays in order
//!                     ▼                 │
//! next records ─► read ─► put · cancel · reschedule ─► done ─────► settled: committed or acked
//!    ▲                │                 └─► rejected ─┐
//!    └────────────────└─► unreadable ─────────────────┴─► dead destination, confirmed ─► settled
//! ```
//! A record is settled only after Redis's answer, so every record is carried out at least once, and the id makes exactly one
//! message. Records of one message are carried out in the order of the partition, queue or stream.

mod broker;
mod config;
mod kafka;
mod look;
mod metrics;
mod nats;
mod rabbitmq;
mod read;
mod reader;
mod record;

use crate::codes::INTAKE;
use crate::taking::{LoopTimes, SourceDeps, SourceLoop, Taking};
use broker::Broker;
use delayq_service::Fault;
use metrics::IntakesMetrics;
use reader::Intake;
use std::collections::BTreeMap;
use std::time::Duration;

pub use config::IntakeConfig;
pub use kafka::KafkaIntakeConfig;
pub use look::{IntakeFault, IntakeLook};
pub use nats::NatsIntakeConfig;
pub use rabbitmq::RabbitmqIntakeConfig;

/// Time for which Redis keeps the answers to settled records: the brokers' clients note settled records a little later.
const NOTED_WITHIN: Duration = Duration::from_secs(10);

/// Creates the named intakes. Brokers and Redis may be unavailable.
///
/// # Errors
/// Unusable settings, or a broker without a client in this build.
pub fn build_intakes(
    configs: &BTreeMap<String, IntakeConfig>,
    deps: &SourceDeps,
) -> Result<Vec<SourceLoop>, Fault> {
    let metrics = IntakesMetrics::register(&deps.metrics);
    let build = |(name, config): (&String, &IntakeConfig)| {
        let parts = IntakeParts { name, config, deps, metrics: &metrics };
        parts.build().map_err(|why| Fault::new(&INTAKE, format!("[intake.{name}]: {why}")))
    };
    configs.iter().map(build).collect()
}

/// Looks at an intake's source and dead destination. Nothing is taken, and nothing is created.
///
/// # Errors
/// The obstacle to taking in.
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

/// The parts of an intake.
struct IntakeParts<'p> {
    name: &'p str,
    config: &'p IntakeConfig,
    deps: &'p SourceDeps,
    metrics: &'p IntakesMetrics,
}

// === impl IntakeParts ===

impl IntakeParts<'_> {
    fn build(&self) -> Result<SourceLoop, String> {
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

    fn over<B: Broker + 'static>(&self, broker: B) -> SourceLoop {
        let metrics = self.metrics.of(self.name);
        let reports =
            (metrics.source.clone(), self.deps.readiness.condition(metrics.source.name().to_owned()));
        let longest_rest = *self.config.longest_rest;
        let limits = LoopTimes { longest_rest, deadline: Duration::MAX, noted_within: NOTED_WITHIN };
        let source = Intake {
            name: self.name.to_owned(),
            config: self.config.clone(),
            broker,
            metrics,
            is_connected: false,
            untried: Vec::new(),
            resting: Vec::new(),
            unburied: Vec::new(),
            stuck: None,
        };
        SourceLoop(Box::new(Taking::new(source, self.deps.client.clone(), reports, limits)))
    }
}

#[cfg(not(all(feature = "intake-kafka", feature = "intake-nats", feature = "intake-rabbitmq")))]
fn without(kind: &str) -> String {
    format!("this program was built without the intake {kind}: build with --features intake-{kind}")
}
