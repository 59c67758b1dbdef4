//! Consuming: the broker hands out as many records as may be in flight, and each is acked by itself. After a lost
//! connection, unacked records come again, in order.

use super::config::RabbitmqIntakeConfig;
use super::dead::Burial;
use super::ready::Ready;
use super::record::record;
use super::ticket::RabbitmqTicket;
use super::{PATIENCE, queue};
use crate::intake::broker::{Arrived, Broker, Buried, Dead, NOT_CONNECTED};
use async_trait::async_trait;
use delayq_service::brokers::{close_rabbitmq, rabbitmq_queue, rabbitmq_words};
use futures_util::StreamExt;
use futures_util::future::try_join_all;
use lapin::message::Delivery;
use lapin::options::{BasicAckOptions, BasicConsumeOptions, BasicQosOptions};
use lapin::types::FieldTable;
use lapin::{Channel, Connection, Consumer};
use std::sync::Arc;
use tokio::time::timeout;

/// Maximum bytes of unacked records, if the next records are as large as the last: AMQP bounds only the number, and the
/// client keeps delivered records in memory.
const MOST_AHEAD_BYTES: usize = 128 << 20;
/// Number of records for a meaningful mean size.
const FEW: usize = 16;

/// A queue, and the destination of dead records.
pub(crate) struct RabbitmqSource {
    config: RabbitmqIntakeConfig,
    dead: String,
    /// Maximum number of records that are not acked; fewer than configured if records are large.
    in_flight: u16,
    open: Option<RabbitmqConnection>,
}

struct RabbitmqConnection {
    connection: Connection,
    channel: Channel,
    consumer: Consumer,
    /// None after a failure.
    burial: Option<Burial>,
    ready: Ready,
    queue: Arc<str>,
    /// Number and bytes of unacked records.
    unsettled: usize,
    bytes: usize,
}

// === impl RabbitmqSource ===

impl RabbitmqSource {
    /// Connects nothing yet.
    pub(crate) fn new(config: RabbitmqIntakeConfig, dead: &str, in_flight: u16) -> Self {
        Self { config, dead: dead.to_owned(), in_flight, open: None }
    }

    async fn connect(&self) -> Result<RabbitmqConnection, String> {
        let name = self.config.queue.as_str();
        let connection = self.config.access.connect("delayq-compensator").await?;
        let words = |error: lapin::Error| rabbitmq_words(&error);
        let asks = connection.create_channel().await.map_err(words)?;
        let first = rabbitmq_queue(&asks, name).await?.message_count();
        let burial = Some(Burial::open(&self.config, &self.dead).await?);
        queue::keeps_order(&connection, name).await?;
        let channel = connection.create_channel().await.map_err(words)?;
        channel.basic_qos(self.in_flight, BasicQosOptions::default()).await.map_err(words)?;
        let options = BasicConsumeOptions::default();
        let consumer = channel.basic_consume(name.into(), "".into(), options, FieldTable::default()).await;
        let queue: Arc<str> = name.into();
        Ok(RabbitmqConnection {
            consumer: consumer.map_err(words)?,
            ready: Ready::start(asks, Arc::clone(&queue), first),
            unsettled: 0,
            bytes: 0,
            connection,
            channel,
            burial,
            queue,
        })
    }

    fn opened(&mut self) -> Result<&mut RabbitmqConnection, String> {
        self.open.as_mut().ok_or_else(|| NOT_CONNECTED.to_owned())
    }

    /// Fewer records at once from now on, over a new connection, where as many of this size would be too many.
    fn check_size(&mut self) -> Result<(), String> {
        let Some(RabbitmqConnection { unsettled, bytes, .. }) = self.open else { return Ok(()) };
        match fewer(self.in_flight, unsettled, bytes) {
            None => Ok(()),
            Some(fewer) => {
                self.in_flight = fewer;
                let mean = bytes / unsettled;
                Err(format!("records have {mean} bytes on average: connecting again for {fewer} at once"))
            }
        }
    }
}

/// Number of records that may be in flight, if `count` records have so many bytes; `None`: as many as may be now.
fn fewer(in_flight: u16, count: usize, bytes: usize) -> Option<u16> {
    let mean = bytes.checked_div(count)?.max(1);
    let most = u16::try_from(MOST_AHEAD_BYTES / mean).unwrap_or(u16::MAX).max(1);
    (count >= FEW && most < in_flight).then_some(most)
}

// === impl RabbitmqConnection ===

impl RabbitmqConnection {
    /// Waits for a record. Cancel safe.
    async fn receive(&mut self) -> Result<Arrived<RabbitmqTicket>, String> {
        match self.consumer.next().await {
            Some(Ok(delivery)) => Ok(self.arrived(delivery)),
            Some(Err(error)) => Err(rabbitmq_words(&error)),
            None => {
                Err(format!("the broker cancelled the consumer: was the queue `{}` deleted?", self.queue))
            }
        }
    }

    fn arrived(&mut self, delivery: Delivery) -> Arrived<RabbitmqTicket> {
        let Delivery { delivery_tag: tag, exchange, routing_key, redelivered, properties, data, .. } =
            delivery;
        let record = record(data, &properties, redelivered);
        let bytes = record.bytes();
        self.unsettled += 1;
        self.bytes += bytes;
        let (queue, exchange, key) = (Arc::clone(&self.queue), exchange.into(), routing_key.into());
        Arrived { record, ticket: RabbitmqTicket { queue, exchange, key, tag, bytes, properties } }
    }
}

#[async_trait]
impl Broker for RabbitmqSource {
    type Ticket = RabbitmqTicket;

    async fn open(&mut self) -> Result<(), String> {
        self.close().await;
        let opened = timeout(PATIENCE, self.connect()).await;
        self.open = Some(opened.unwrap_or_else(|_| {
            Err(format!("no reply from {} within {PATIENCE:?}", self.config.access.server))
        })?);
        Ok(())
    }

    /// The broker stops by itself when as much is not acked as may be.
    async fn receive(&mut self, _: bool) -> Result<Vec<Arrived<RabbitmqTicket>>, String> {
        let arrived = self.opened()?.receive().await?;
        self.check_size()?;
        Ok(vec![arrived])
    }

    /// A queue has no offsets.
    fn place(&self, _: &RabbitmqTicket) -> Option<String> {
        None
    }

    /// All are lost with the channel.
    fn is_lost(&self, _: &RabbitmqTicket) -> bool {
        self.open.as_ref().is_none_or(|open| !open.channel.status().connected())
    }

    async fn settle(&mut self, tickets: &[&RabbitmqTicket]) -> Result<(), String> {
        let in_flight = self.in_flight;
        let open = self.opened()?;
        // All at once: each ack waits for a write by the client's own thread, and acks together take few writes.
        let acks =
            tickets.iter().map(|ticket| open.channel.basic_ack(ticket.tag, BasicAckOptions::default()));
        try_join_all(acks).await.map_err(|error| rabbitmq_words(&error))?;
        // Acks have no answer; the broker answers after taking the acks.
        let asked = open.channel.basic_qos(in_flight, BasicQosOptions::default()).await;
        asked.map_err(|error| rabbitmq_words(&error))?;
        open.unsettled -= tickets.len();
        open.bytes -= tickets.iter().map(|ticket| ticket.bytes).sum::<usize>();
        Ok(())
    }

    async fn bury(&mut self, dead: &[Dead<'_, RabbitmqTicket>]) -> Result<Vec<Buried>, String> {
        let Self { config, dead: key, open, .. } = self;
        let open = open.as_mut().ok_or(NOT_CONNECTED)?;
        let burial = match open.burial.take() {
            Some(burial) => burial,
            None => Burial::open(config, key).await?,
        };
        let buried = burial.publish(dead).await;
        match buried.iter().all(Result::is_ok) {
            true => open.burial = Some(burial),
            false => burial.close().await,
        }
        Ok(buried)
    }

    fn lag(&self) -> Option<u64> {
        self.open.as_ref().map(|open| open.ready.count() + open.unsettled as u64)
    }

    async fn close(&mut self) {
        let Some(RabbitmqConnection { connection, burial, .. }) = self.open.take() else { return };
        let _ = close_rabbitmq(&connection).await;
        if let Some(burial) = burial {
            burial.close().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_large_records_fewer_are_in_flight() {
        for (count, bytes, expected) in [
            (0, 0, None),
            (FEW, 0, None),
            (FEW, FEW << 10, None),
            (FEW, FEW << 20, Some(128)),
            (FEW - 1, FEW << 20, None),
            (FEW, FEW << 30, Some(1)),
        ] {
            assert_eq!(fewer(2000, count, bytes), expected, "{count} records of {bytes} bytes");
        }
        assert_eq!(fewer(128, FEW, FEW << 20), None, "once is enough");
    }
}
