//! Access to users' brokers, shared by the sink that delivers into a broker and the intake that reads from the broker.
//!
//! Each configuration has keys of its own; an *access* borrows the keys for address and login, checks them together,
//! and makes the client's settings (with the cargo feature of that client).

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
