//! The intake: topics of Kafka, queues of RabbitMQ and SQS, and streams of NATS that producers publish to, as a fallback or always.
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
mod kinds;
mod look;
mod metrics;
mod nats;
mod rabbitmq;
mod read;
mod reader;
mod record;
mod sqs;

use crate::codes::INTAKE;
use crate::taking::{LoopTimes, SourceDeps, SourceLoop, Taking};
use broker::Broker;
use delayq_service::Fault;
use kinds::intake_kinds;
use metrics::IntakesMetrics;
use reader::Intake;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

pub use config::IntakeConfig;
pub use kafka::KafkaIntakeConfig;
pub use look::{IntakeFault, IntakeLook};
pub use nats::NatsIntakeConfig;
pub use rabbitmq::RabbitmqIntakeConfig;
pub use sqs::SqsIntakeConfig;

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

/// The parts of an intake.
struct IntakeParts<'p> {
    name: &'p str,
    config: &'p IntakeConfig,
    deps: &'p SourceDeps,
    metrics: &'p IntakesMetrics,
}

// === impl IntakeParts ===

impl IntakeParts<'_> {
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
            early: VecDeque::new(),
            untried: Vec::new(),
            resting: Vec::new(),
            unburied: Vec::new(),
            stuck: None,
        };
        SourceLoop(Box::new(Taking::new(source, self.deps.client.clone(), reports, limits)))
    }
}

macro_rules! clients {
    ($($(#[doc = $doc:literal])* $word:literal, $table:ident: $config:ty, feature: $feature:literal,
        look: $look:path, source: |$of_kind:ident, $intake:ident| $source:expr;)*) => {
        /// Looks at an intake's source and dead destination. Nothing is taken, and nothing is created.
        ///
        /// # Errors
        /// The obstacle to taking in.
        pub async fn look_at_intake(config: &IntakeConfig) -> Result<IntakeLook, IntakeFault> {
            $(
                #[cfg(feature = $feature)]
                if let Some(of_kind) = &config.$table {
                    return $look(of_kind, &config.dead).await;
                }
                #[cfg(not(feature = $feature))]
                if config.$table.is_some() {
                    return Err(IntakeFault::Unknown(without($word)));
                }
            )*
            Err(IntakeFault::Unusable("the intake has no kind".to_owned()))
        }

        impl IntakeParts<'_> {
            fn build(&self) -> Result<SourceLoop, String> {
                $(
                    #[cfg(feature = $feature)]
                    if let ($intake, Some($of_kind)) = (self.config, &self.config.$table) {
                        return Ok(self.over($source));
                    }
                    #[cfg(not(feature = $feature))]
                    if self.config.$table.is_some() {
                        return Err(without($word));
                    }
                )*
                Err("the intake has no kind".to_owned())
            }
        }
    };
}

intake_kinds!(clients);

#[cfg(not(all(
    feature = "intake-kafka",
    feature = "intake-nats",
    feature = "intake-rabbitmq",
    feature = "intake-sqs"
)))]
fn without(kind: &str) -> String {
    format!("this program was built without the intake {kind}: build with --features intake-{kind}")
}
