//! Users' brokers, shared by the sink that delivers into a broker and the intake that reads from the broker.
//!
//! An *access* has the keys for address, TLS and login, which the tables of the sink and of the intake share; it checks them
//! together, and makes the client's settings (with the cargo feature of that client). A *letter* is one message in the broker's own
//! form: the sink makes letters of parcels, and the intake of dead records. Publishing stores an [`Outcome`] for each.

mod answers;
#[cfg(feature = "http")]
mod http;
mod kafka;
mod nats;
mod outcome;
mod rabbitmq;
mod sqs;

pub use answers::Answers;
#[cfg(feature = "http")]
pub use http::{http_client, http_words, unanswered};
pub use kafka::{KafkaAccess, kafka_topic};
#[cfg(feature = "kafka")]
pub use kafka::{KafkaLetter, KafkaPublisher, KafkaWords, kafka_topic_exists};
pub use nats::{NatsAccess, commands_nats, nats_subject};
#[cfg(feature = "nats")]
pub use nats::{NatsAnswer, NatsLetter, NatsPublisher, NatsRefusals};
pub use outcome::{Blame, Outcome, Outcomes};
pub use rabbitmq::{RabbitmqAccess, rabbitmq_key, routes_rabbitmq};
#[cfg(feature = "rabbitmq")]
pub use rabbitmq::{
    RabbitmqArguments, RabbitmqLetter, close_rabbitmq, publish_rabbitmq, rabbitmq_arguments,
    rabbitmq_destination, rabbitmq_queue, rabbitmq_words,
};
pub use sqs::{SqsAccess, is_sqs_fifo, sqs_queue};
#[cfg(feature = "sqs")]
pub use sqs::{SqsClient, SqsContent, SqsFailure, SqsFault, SqsLetter, SqsQueue, SqsRecord};
