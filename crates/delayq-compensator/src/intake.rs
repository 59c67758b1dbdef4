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
use crate::source_metrics::SourcesMetrics;
use crate::taking::{SourceLoop, Taking};
use crate::writes::Carrier;
use broker::Broker;
use delayq::Client;
use delayq_service::{Fault, Readiness};
use metrics::IntakesMetrics;
use reader::Intake;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

pub use config::IntakeConfig;
pub use kafka::KafkaIntakeConfig;
pub use look::{IntakeFault, IntakeLook};
pub use nats::NatsIntakeConfig;
pub use rabbitmq::RabbitmqIntakeConfig;

/// How long Redis keeps the answers to settled records: the brokers' clients note what is settled a little later.
const NOTED_WITHIN: Duration = Duration::from_secs(10);

/// What intakes work with.
pub struct IntakeDeps {
    /// The deployment.
    pub client: Client,
    /// Where they register their metrics.
    pub metrics: SourcesMetrics,
    /// Where each reports whether it takes in, as the condition `intake.NAME`.
    pub readiness: Readiness,
}

/// Creates the intakes by their names. Brokers and Redis may be unavailable.
///
/// # Errors
/// Settings that cannot be used, or a broker whose client this program was built without.
pub fn build_intakes(
    configs: &BTreeMap<String, IntakeConfig>,
    deps: &IntakeDeps,
) -> Result<Vec<SourceLoop>, Fault> {
    let metrics = IntakesMetrics::register(&deps.metrics);
    let build = |(name, config): (&String, &IntakeConfig)| {
        let parts = Parts { name, config, deps, metrics: &metrics };
        parts.build().map_err(|why| Fault::new(&INTAKE, format!("[intake.{name}]: {why}")))
    };
    configs.iter().map(build).collect()
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
}

// === impl Parts ===

impl Parts<'_> {
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
        let (metrics, source) = (self.metrics.of(self.name), format!("intake.{}", self.name));
        SourceLoop(Box::new(Taking {
            metrics: metrics.source.clone(),
            source: Intake {
                name: self.name.to_owned(),
                config: self.config.clone(),
                broker,
                metrics,
                is_connected: false,
                untried: Vec::new(),
                resting: Vec::new(),
                unburied: Vec::new(),
                stuck: None,
            },
            carrier: Carrier::new(self.deps.client.clone()),
            condition: self.deps.readiness.condition(source.clone()),
            name: source,
            longest_rest: *self.config.longest_rest,
            deadline: Duration::MAX,
            noted_within: NOTED_WITHIN,
            is_doubtful: false,
            settled: VecDeque::new(),
        }))
    }
}

#[cfg(not(all(feature = "intake-kafka", feature = "intake-nats", feature = "intake-rabbitmq")))]
fn without(kind: &str) -> String {
    format!("this program was built without the intake {kind}: build with --features intake-{kind}")
}
