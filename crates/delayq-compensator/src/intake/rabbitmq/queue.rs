//! The queue has to exist and to keep the order: with a single active consumer and no priorities.
//!
//! A single active consumer is a property of the queue: of any number of consuming compensators, the broker hands records to
//! one, and to the next only after the first is gone. An exclusive consumer would do the same, but the others would be
//! refused again and again instead of waiting.

use delayq_service::brokers::{RabbitmqArguments, rabbitmq_arguments, rabbitmq_words};
use lapin::options::{ExchangeDeclareOptions, QueueDeclareOptions};
use lapin::types::FieldTable;
use lapin::{Channel, Connection, ExchangeKind, Queue};
use std::time::Duration;
use tokio::time::timeout;

const SINGLE: &str = "x-single-active-consumer";
const PRIORITIES: &str = "x-max-priority";
const KIND: &str = "x-queue-type";

/// Maximum time for an orderly end. With a channel in the wrong state the end never comes, and a stop must not wait for
/// that. The broker notices the dropped connection.
const CLOSING: Duration = Duration::from_secs(2);

/// Closes a connection that is not broken.
pub(super) async fn close(connection: &Connection) {
    if connection.status().connected() {
        let _ = timeout(CLOSING, connection.close(200, "closing".into())).await;
    }
}

/// The state of an existing queue.
pub(super) async fn existing(channel: &Channel, queue: &str) -> Result<Queue, String> {
    let passive = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() };
    let declared = channel.queue_declare(queue.into(), passive, FieldTable::default()).await;
    declared.map_err(|error| rabbitmq_words(&error))
}

/// Number of ready records in an existing queue.
pub(super) async fn ready(channel: &Channel, queue: &str) -> Result<u32, String> {
    existing(channel, queue).await.map(|queue| queue.message_count())
}

/// Checks that an exchange exists, or for the default exchange the queue that the key names.
pub(super) async fn destination(channel: &Channel, exchange: &str, key: &str) -> Result<(), String> {
    if exchange.is_empty() {
        return existing(channel, key).await.map(drop);
    }
    let passive = ExchangeDeclareOptions { passive: true, ..ExchangeDeclareOptions::default() };
    let kind = ExchangeKind::Direct;
    let declared = channel.exchange_declare(exchange.into(), kind, passive, FieldTable::default()).await;
    declared.map_err(|error| rabbitmq_words(&error))
}

/// Refuses a queue that does not keep the order, as far as this user may see the arguments.
pub(super) async fn keeps_order(connection: &Connection, queue: &str) -> Result<(), String> {
    match rabbitmq_arguments(connection, queue).await {
        Ok(arguments) => judge(queue, &arguments),
        Err(why) => {
            tracing::warn!(
                queue,
                why,
                "the arguments of the queue cannot be seen: make sure that it has {SINGLE} and no {PRIORITIES}"
            );
            Ok(())
        }
    }
}

fn judge(queue: &str, arguments: &RabbitmqArguments) -> Result<(), String> {
    if arguments.get(KIND).is_some_and(|kind| kind == "stream") {
        return Err(format!(
            "the queue `{queue}` is a stream, which keeps records after their acks: use a quorum queue or a classic one"
        ));
    }
    if let Some(most) = arguments.get(PRIORITIES) {
        return Err(format!(
            "the queue `{queue}` has {PRIORITIES}={most}, which breaks the order of its records"
        ));
    }
    if arguments.get(SINGLE).is_none_or(|single| single != "true") {
        return Err(format!(
            "the queue `{queue}` was declared without {SINGLE}, so several consumers would break the order of its \
             records: declare it again with {SINGLE}=true"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_has_a_single_active_consumer_and_no_priorities() {
        for (arguments, expected) in [
            (&[][..], Some("without x-single-active-consumer")),
            (&[(SINGLE, "false")], Some("without x-single-active-consumer")),
            (&[(SINGLE, "true")], None),
            (&[(SINGLE, "true"), (KIND, "quorum")], None),
            (&[(KIND, "stream")], Some("is a stream")),
            (&[(SINGLE, "true"), (PRIORITIES, "10")], Some("x-max-priority=10")),
        ] {
            let arguments =
                arguments.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
            match (judge("in", &arguments), expected) {
                (Ok(()), None) => {}
                (Err(why), Some(part)) => assert!(why.contains(part), "{why}"),
                (found, _) => panic!("{arguments:?}: {found:?}"),
            }
        }
    }
}
