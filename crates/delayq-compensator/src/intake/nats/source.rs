//! Reading through a durable pull consumer, acks of each record of its own.
//!
//! The server hands a record out again when its reader is gone, but only after a while, and later ones before. So after each
//! connection nothing is carried out until everything that is not acked is here; then it is in the order of the stream.

use super::config::NatsIntakeConfig;
use super::outstanding::Outstanding;
use super::turn::Turn;
use super::{dead, record};
use crate::intake::source::{Arrived, Dead, Source};
use async_nats::jetstream::consumer::pull::{Config, Stream};
use async_nats::jetstream::consumer::{AckPolicy, Consumer};
use async_nats::jetstream::{self, Context};
use async_nats::{Client, Event};
use async_trait::async_trait;
use futures_util::{FutureExt, StreamExt};
use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::sleep;

/// How long the server may take to answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// After this time without a sign a record is handed out again, if this process creates the consumer.
const ACK_WAIT: Duration = Duration::from_secs(10);
/// How often the server is asked whether everything is here.
const ASK_EVERY: Duration = Duration::from_millis(100);

/// How often the server says that it has nothing, and when it is asked again.
const HEARTBEAT: Duration = Duration::from_secs(5);
const EXPIRES: Duration = Duration::from_secs(15);

/// A stream, and the subject of its dead records.
pub(crate) struct NatsSource {
    config: NatsIntakeConfig,
    dead: String,
    /// Maximum number of records that are not acked.
    in_flight: u16,
    connections: u64,
    open: Option<Open>,
}

struct Open {
    client: Client,
    context: Context,
    consumer: Consumer<Config>,
    broken: watch::Receiver<bool>,
    turn: Turn,
    /// None before it is this connection's turn.
    messages: Option<Stream>,
    outstanding: Outstanding,
    /// What arrived and is not handed out yet.
    early: VecDeque<Arrived<NatsTicket>>,
    /// Whether everything that is not acked is here.
    is_gathered: bool,
    pending: u64,
    /// Which connection it is, from 1.
    number: u64,
    stream: Arc<str>,
}

/// A record that was handed out.
#[derive(Debug)]
pub(crate) struct NatsTicket {
    stream: Arc<str>,
    sequence: u64,
    connection: u64,
}

// === impl NatsSource ===

impl NatsSource {
    /// Connects nothing yet.
    pub(crate) fn new(config: NatsIntakeConfig, dead: &str, in_flight: u16) -> Self {
        Self { config, dead: dead.to_owned(), in_flight, connections: 0, open: None }
    }

    async fn connect(&self) -> Result<(Client, watch::Receiver<bool>), String> {
        let (sender, broken) = watch::channel(false);
        let options = self.config.access().options("delayq-compensator").await?;
        let options = options
            .connection_timeout(PATIENCE)
            .request_timeout(Some(PATIENCE))
            .ping_interval(Duration::from_secs(5))
            .subscription_capacity(usize::from(u16::MAX) * 2)
            .event_callback(move |event| {
                if matches!(event, Event::Disconnected | Event::Closed) {
                    sender.send_replace(true);
                }
                std::future::ready(())
            });
        Ok((self.config.access().connect(options).await?, broken))
    }

    /// The consumer, created where it is missing; one that would lose records is refused.
    async fn consumer(&self, context: &Context) -> Result<Consumer<Config>, String> {
        let NatsIntakeConfig { stream: name, consumer, subject, .. } = &self.config;
        let stream =
            context.get_stream(name).await.map_err(|error| format!("the stream `{name}`: {error}"))?;
        let dead = context.stream_by_subject(&self.dead).await;
        let dead =
            dead.map_err(|error| format!("no stream takes the dead subject `{}`: {error}", self.dead))?;
        if dead == *name && subject.is_none() {
            return Err(format!(
                "the dead subject `{}` is of the stream `{name}`: dead records would be taken in again",
                self.dead
            ));
        }
        let wanted = Config {
            durable_name: Some(consumer.clone()),
            ack_policy: AckPolicy::Explicit,
            ack_wait: ACK_WAIT,
            max_ack_pending: self.in_flight.into(),
            filter_subject: subject.clone().unwrap_or_default(),
            ..Config::default()
        };
        let created = stream.get_or_create_consumer(consumer, wanted).await;
        let created = created.map_err(|error| format!("the consumer `{consumer}`: {error}"))?;
        let found = &created.cached_info().config;
        if found.ack_policy != AckPolicy::Explicit {
            return Err(format!("the consumer `{consumer}` has no explicit acks"));
        }
        if found.max_deliver > 0 {
            return Err(format!(
                "the consumer `{consumer}` has max_deliver={}: it would lose records",
                found.max_deliver
            ));
        }
        if found.filter_subject != subject.clone().unwrap_or_default() {
            return Err(format!("the consumer `{consumer}` reads the subject `{}`", found.filter_subject));
        }
        Ok(created)
    }

    fn opened(&mut self) -> Result<&mut Open, String> {
        self.open.as_mut().ok_or_else(|| "it is not connected".to_owned())
    }
}

// === impl Open ===

impl Open {
    /// Waits for the turn and until everything that is not acked is here. Cancel safe.
    async fn gather(&mut self) -> Result<(), String> {
        if self.is_gathered {
            return Ok(());
        }
        self.turn.held().await?;
        if self.messages.is_none() {
            let ahead =
                usize::try_from(self.consumer.cached_info().config.max_ack_pending).unwrap_or(1).max(1);
            let stream =
                self.consumer.stream().max_messages_per_batch(ahead).heartbeat(HEARTBEAT).expires(EXPIRES);
            self.messages = Some(stream.messages().await.map_err(|error| error.to_string())?);
        }
        loop {
            while let Some(received) = self.receive().now_or_never() {
                received?;
            }
            let info = self.consumer.get_info().await.map_err(|error| error.to_string())?;
            if info.num_ack_pending == self.outstanding.count() {
                break;
            }
            sleep(ASK_EVERY).await;
        }
        self.early.make_contiguous().sort_by_key(|arrived| arrived.ticket.sequence);
        self.is_gathered = true;
        Ok(())
    }

    /// Waits for a record, and keeps it. Cancel safe.
    async fn receive(&mut self) -> Result<(), String> {
        let messages = self.messages.as_mut().ok_or("it is not this connection's turn")?;
        let message = tokio::select! {
            biased;
            _ = self.broken.wait_for(|broken| *broken) => return Err("the connection broke".to_owned()),
            message = messages.next() => message,
        };
        let message = message.ok_or("the consumer is gone")?.map_err(|error| error.to_string())?;
        let info = message.info().map_err(|error| error.to_string())?;
        self.pending = info.pending;
        let (sequence, record) = (info.stream_sequence, record::record(&message, &info));
        let reply = message.reply.clone().ok_or("a message without an address for its ack")?;
        // Handed out again while it is here, it is no second record.
        if self.outstanding.add(sequence, reply) {
            let ticket = NatsTicket { stream: Arc::clone(&self.stream), sequence, connection: self.number };
            self.early.push_back(Arrived { record, ticket });
        }
        Ok(())
    }
}

#[async_trait]
impl Source for NatsSource {
    type Ticket = NatsTicket;

    async fn open(&mut self) -> Result<(), String> {
        self.close().await;
        let (client, broken) = self.connect().await?;
        let context = jetstream::context::ContextBuilder::new().timeout(PATIENCE).build(client.clone());
        let consumer = self.consumer(&context).await?;
        let turn = Turn::ask(&client, &self.config.stream, &self.config.consumer).await?;
        let info = consumer.cached_info();
        self.connections += 1;
        self.open = Some(Open {
            outstanding: Outstanding::start(&client, info.config.ack_wait),
            pending: info.num_pending,
            client,
            context,
            consumer,
            broken,
            turn,
            messages: None,
            early: VecDeque::new(),
            is_gathered: false,
            number: self.connections,
            stream: self.config.stream.as_str().into(),
        });
        Ok(())
    }

    async fn next(&mut self, most: usize) -> Result<Vec<Arrived<NatsTicket>>, String> {
        let open = self.opened()?;
        open.gather().await?;
        while open.early.is_empty() {
            open.receive().await?;
        }
        while open.early.len() < most
            && let Some(received) = open.receive().now_or_never()
        {
            received?;
        }
        let count = most.min(open.early.len());
        Ok(open.early.drain(..count).collect())
    }

    /// The server stops by itself when as much is not acked as may be; what it sent until then is kept.
    async fn hold(&mut self, _: &[&NatsTicket]) -> Result<(), String> {
        let open = self.opened()?;
        open.pending = open.consumer.get_info().await.map_err(|error| error.to_string())?.num_pending;
        loop {
            open.receive().await?;
        }
    }

    fn is_lost(&self, ticket: &NatsTicket) -> bool {
        self.open.as_ref().is_none_or(|open| open.number != ticket.connection)
    }

    async fn settle(&mut self, tickets: &[&NatsTicket]) -> Result<(), String> {
        let open = self.opened()?;
        for reply in tickets.iter().filter_map(|ticket| open.outstanding.take(ticket.sequence)) {
            open.client.publish(reply, "+ACK".into()).await.map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    async fn bury(&mut self, dead: &[Dead<'_, NatsTicket>]) -> Result<(), String> {
        let subject = self.dead.clone();
        dead::publish(&self.opened()?.context, &subject, dead).await
    }

    fn lag(&self) -> Option<u64> {
        self.open.as_ref().map(|open| open.pending + open.outstanding.count() as u64)
    }

    async fn close(&mut self) {
        if let Some(open) = self.open.take() {
            // What was acked goes out first.
            let _ = tokio::time::timeout(PATIENCE, open.client.flush()).await;
        }
    }
}

impl fmt::Display for NatsTicket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "nats {} sequence {}", self.stream, self.sequence)
    }
}
