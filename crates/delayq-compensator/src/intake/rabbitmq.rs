//! The intake `rabbitmq`: a queue with a single active consumer, and an ack for each record.

mod config;
#[cfg(feature = "intake-rabbitmq")]
mod dead;
#[cfg(feature = "intake-rabbitmq")]
mod look;
#[cfg(feature = "intake-rabbitmq")]
mod queue;
#[cfg(feature = "intake-rabbitmq")]
mod ready;
#[cfg(feature = "intake-rabbitmq")]
mod record;
#[cfg(feature = "intake-rabbitmq")]
mod source;
#[cfg(feature = "intake-rabbitmq")]
mod ticket;

pub use config::RabbitmqIntakeConfig;
#[cfg(feature = "intake-rabbitmq")]
pub(crate) use look::look;
#[cfg(feature = "intake-rabbitmq")]
pub(crate) use source::RabbitmqSource;

/// Maximum time for an answer of the broker.
#[cfg(feature = "intake-rabbitmq")]
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(10);
