//! The sink `rabbitmq`: RabbitMQ and other brokers of AMQP 0-9-1, with confirms and the mandatory flag.

#[cfg(feature = "rabbitmq")]
mod check;
mod config;
#[cfg(feature = "rabbitmq")]
mod deliver;
#[cfg(feature = "rabbitmq")]
mod encode;

pub use config::RabbitmqConfig;
#[cfg(feature = "rabbitmq")]
pub(crate) use deliver::RabbitmqSink;
