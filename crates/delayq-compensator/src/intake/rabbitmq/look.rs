//! Looking at a queue, without consuming.

use super::config::RabbitmqIntakeConfig;
use super::{PATIENCE, queue};
use crate::intake::look::{IntakeFault, IntakeLook};
use delayq_service::brokers::{close_rabbitmq, rabbitmq_destination, rabbitmq_queue, rabbitmq_words};
use futures_util::{Stream, StreamExt};
use lapin::options::{BasicConsumeOptions, BasicPublishOptions};
use lapin::protocol::{AMQPErrorKind, AMQPSoftError};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{BasicProperties, Connection, Error, ErrorKind, Event};
use std::future;
use std::pin::pin;
use tokio::time::timeout;

/// An argument that no consumer can have: the value is a number.
const IMPOSSIBLE: (&str, &str) = ("x-priority", "none");

/// Looks at the queue, the destination of dead records, and this user's permissions on both.
pub(crate) async fn look(config: &RabbitmqIntakeConfig, dead: &str) -> Result<IntakeLook, IntakeFault> {
    let connecting = timeout(PATIENCE, config.access.connect("delayq-look")).await;
    let connection = connecting.unwrap_or_else(|_| Err(silent(config))).map_err(IntakeFault::Unreachable)?;
    let seen = timeout(PATIENCE, see(&connection, config, dead)).await;
    let seen = seen.unwrap_or_else(|_| Err(silent(config)));
    let _ = close_rabbitmq(&connection).await;
    seen.map_err(IntakeFault::Unusable)
}

fn silent(config: &RabbitmqIntakeConfig) -> String {
    format!("no reply from {} within {PATIENCE:?}", config.access.server)
}

async fn see(
    connection: &Connection,
    config: &RabbitmqIntakeConfig,
    dead: &str,
) -> Result<IntakeLook, String> {
    let RabbitmqIntakeConfig { queue: name, dead_exchange: exchange, .. } = config;
    let channel = connection.create_channel().await.map_err(|error| rabbitmq_words(&error))?;
    let found = rabbitmq_queue(&channel, name).await?;
    rabbitmq_destination(&channel, exchange, dead).await?;
    queue::keeps_order(connection, name).await?;
    may_write(connection, exchange, dead).await.map_err(|error| rabbitmq_words(&error))?;
    may_read(connection, name).await.map_err(|error| rabbitmq_words(&error))?;
    let reader = match found.consumer_count() {
        0 => None,
        1 => Some("1 consumer".to_owned()),
        count => Some(format!("{count} consumers, one of them active")),
    };
    Ok(IntakeLook { lag: found.message_count().into(), lost: 0, reader })
}

/// Asks to consume with an argument that is refused, but after the right to read is checked.
async fn may_read(connection: &Connection, queue: &str) -> Result<(), Error> {
    let mut arguments = FieldTable::default();
    arguments.insert(IMPOSSIBLE.0.into(), AMQPValue::LongString(IMPOSSIBLE.1.into()));
    let channel = connection.create_channel().await?;
    let options = BasicConsumeOptions::default();
    match channel.basic_consume(queue.into(), "".into(), options, arguments).await {
        Err(error) if is_refused_argument(&error) => Ok(()),
        Err(error) => Err(error),
        // The look read nothing yet: delivered records go back with the channel.
        Ok(_) => channel.close(200, "checked".into()).await,
    }
}

fn is_refused_argument(error: &Error) -> bool {
    let refused = AMQPErrorKind::Soft(AMQPSoftError::PRECONDITIONFAILED);
    matches!(error.kind(), ErrorKind::ProtocolError(amqp) if *amqp.kind() == refused)
}

/// Publishes in a transaction that is rolled back: nothing is routed, but the right to write is checked.
async fn may_write(connection: &Connection, exchange: &str, key: &str) -> Result<(), Error> {
    let events = connection.events_listener();
    let channel = connection.create_channel().await?;
    channel.tx_select().await?;
    let (options, properties) = (BasicPublishOptions::default(), BasicProperties::default());
    channel.basic_publish(exchange.into(), key.into(), options, &[], properties).await?;
    match channel.tx_rollback().await {
        // The refusal has closed the channel already: only the connection's events say why.
        Err(error) if matches!(error.kind(), ErrorKind::InvalidChannelState(..)) => {
            Err(first_error(events).await.unwrap_or(error))
        }
        rolled_back => rolled_back,
    }
}

async fn first_error(events: impl Stream<Item = Event>) -> Option<Error> {
    let error = |event| future::ready(if let Event::Error(error) = event { Some(error) } else { None });
    pin!(events.filter_map(error)).next().await
}
