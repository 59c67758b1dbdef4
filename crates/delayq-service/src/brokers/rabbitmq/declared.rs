//! What is declared already: passive declarations, which create nothing.

use super::rabbitmq_words;
use lapin::options::{ExchangeDeclareOptions, QueueDeclareOptions};
use lapin::types::FieldTable;
use lapin::{Channel, Connection, ExchangeKind, Queue};
use std::time::Duration;
use tokio::time::timeout;

/// Maximum time for an orderly end. With a channel in the wrong state the end never comes, and a stop must not wait for
/// that. The broker notices the dropped connection.
const CLOSING: Duration = Duration::from_secs(2);

/// Closes a connection that is not broken.
///
/// # Errors
/// The broker refused the end.
pub async fn close_rabbitmq(connection: &Connection) -> Result<(), String> {
    if !connection.status().connected() {
        return Ok(());
    }
    let closed = timeout(CLOSING, connection.close(200, "closing".into())).await;
    closed.unwrap_or(Ok(())).map_err(|error| rabbitmq_words(&error))
}

/// The state of an existing queue.
///
/// # Errors
/// The broker's words: the queue does not exist, or may not be seen.
pub async fn rabbitmq_queue(channel: &Channel, queue: &str) -> Result<Queue, String> {
    let passive = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() };
    let declared = channel.queue_declare(queue.into(), passive, FieldTable::default()).await;
    declared.map_err(|error| rabbitmq_words(&error))
}

/// Checks that an exchange exists, or for the default exchange the queue that the key names.
///
/// # Errors
/// The broker's words.
pub async fn rabbitmq_destination(channel: &Channel, exchange: &str, key: &str) -> Result<(), String> {
    if exchange.is_empty() {
        return rabbitmq_queue(channel, key).await.map(drop);
    }
    let passive = ExchangeDeclareOptions { passive: true, ..ExchangeDeclareOptions::default() };
    let kind = ExchangeKind::Direct;
    let declared = channel.exchange_declare(exchange.into(), kind, passive, FieldTable::default()).await;
    declared.map_err(|error| rabbitmq_words(&error))
}
