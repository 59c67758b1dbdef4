//! How the brokers of users are reached: what a sink that delivers into one and an intake that reads from one have in common.
//!
//! The configurations keep keys of their own; an *access* borrows those by which a server is reached and logged in to, checks
//! them together, and makes the client's settings of them (with the cargo feature of that client).

mod kafka;
#[cfg(feature = "kafka")]
mod kafka_words;
mod nats;
mod rabbitmq;
#[cfg(feature = "rabbitmq")]
mod rabbitmq_queue;

pub use kafka::{KafkaAccess, kafka_topic};
#[cfg(feature = "kafka")]
pub use kafka_words::KafkaWords;
pub use nats::{NatsAccess, commands_nats, nats_subject};
pub use rabbitmq::{RabbitmqAccess, rabbitmq_key, routes_rabbitmq};
#[cfg(feature = "rabbitmq")]
pub use rabbitmq_queue::{RabbitmqArguments, rabbitmq_arguments, rabbitmq_words};
