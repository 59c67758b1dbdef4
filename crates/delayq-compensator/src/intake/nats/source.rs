//! Reads through a durable pull consumer, and acks each record.
//!
//! After a lost reader the server hands out later records first, and the unacked record again only after a while. So after
//! each connection nothing is carried out until everything that is not acked is here; then the records are in the stream's
//! order.

use super::config::NatsIntakeConfig;
use super::outstanding::{Arrival, Outstanding};
use super::sequences::Sequences;
use super::ticket::NatsTicket;
use super::turn::{OVER, Turn};
use super::unreadable::{self, ConnectionProgress};
use super::{PATIENCE, consumer, dead, record};
use crate::intake::broker::{Arrived, Broker, Buried, Dead, Lost, NOT_CONNECTED};
use async_nats::jetstream::consumer::pull::{Batch, Config};
use async_nats::jetstream::consumer::{AckPolicy, Consumer, Info};
use async_nats::jetstream::{self, Context, Message};
use async_nats::{Client, Event, Subject};
use async_trait::async_trait;
use delayq_service::brokers::{NatsPublisher, NatsRefusals};
use futures_util::{FutureExt, StreamExt};
use std::collections::VecDeque;
use std::mem;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::sleep;

/// After this time without a sign a record is handed out again, if this process creates the consumer.
const ACK_WAIT: Duration = Duration::from_secs(10);
/// Interval between requests for the state of the consumer.
const ASK_EVERY: Duration = Duration::from_millis(100);

/// Lifetime of a request for records, and the time by which the request should have ended.
const EXPIRES: Duration = Duration::from_secs(15);
const ENDED: Duration = Duration::from_secs(18);
/// The server's answer if the next record is larger than the rest of a request.
const TOO_LARGE: &str = "Exceeds MaxBytes";

/// Maximum bytes of unacked records, exceeded by at most one record.
const MOST_AHEAD_BYTES: usize = 64 << 20;

const BROKEN: &str = "the connection broke";

/// A stream, and the subject of dead records.
pub(crate) struct NatsSource {
    config: NatsIntakeConfig,
    dead: String,
    /// Maximum number of records that are not acked.
    in_flight: u16,
    connections: u64,
    progress: ConnectionProgress,
    /// The sequences of the last connection, while none is open.
    sequences: Sequences,
    open: Option<NatsConnection>,
}

struct NatsConnection {
    client: Client,
    publisher: NatsPublisher,
    context: Context,
    consumer: Consumer<Config>,
    broken: watch::Receiver<bool>,
    turn: Turn,
    /// The request that stands.
    request: Option<Request>,
    /// The bytes that were held when the next record was too large to be held too.
    cramped_at: Option<usize>,
    outstanding: Outstanding,
    in_flight: usize,
    /// The search for unreadable records, and the findings.
    suspect: Range<u64>,
    unreadable: Vec<Arrived<NatsTicket>>,
    /// Records that arrived and are not handed out yet.
    early: VecDeque<Arrived<NatsTicket>>,
    /// All unacked records are here.
    is_gathered: bool,
    /// Beginning of the turn.
    since: Option<Instant>,
    asking: Option<JoinHandle<Result<Info, String>>>,
    pending: u64,
    sequences: Sequences,
    /// The last request ended without a record.
    is_idle: bool,
    /// Number of the connection, from 1.
    number: u64,
    stream: Arc<str>,
}

/// Records that the server was asked for.
struct Request {
    records: Batch,
    since: Instant,
    /// Number of records that came.
    count: usize,
}

// === impl NatsSource ===

impl NatsSource {
    /// Connects nothing yet.
    pub(crate) fn new(config: NatsIntakeConfig, dead: &str, in_flight: u16) -> Self {
        let sequences = Sequences::new(config.subject.is_none());
        Self {
            config,
            dead: dead.to_owned(),
            in_flight,
            connections: 0,
            progress: ConnectionProgress::default(),
            sequences,
            open: None,
        }
    }

    async fn connect(&self) -> Result<(Client, NatsPublisher, watch::Receiver<bool>), String> {
        let (sender, broken) = watch::channel(false);
        let refusals = NatsRefusals::default();
        let heard = refusals.clone();
        let options = self.config.access.options("delayq-compensator").await?;
        let options = options
            .connection_timeout(PATIENCE)
            .request_timeout(Some(PATIENCE))
            .ping_interval(Duration::from_secs(5))
            .subscription_capacity(usize::from(u16::MAX) * 2)
            .event_callback(move |event| {
                heard.hear(&event);
                if matches!(event, Event::Disconnected | Event::Closed) {
                    sender.send_replace(true);
                }
                std::future::ready(())
            });
        let client = self.config.access.connect(options).await?;
        let publisher =
            NatsPublisher::start(client.clone(), refusals).await.map_err(|error| error.to_string())?;
        Ok((client, publisher, broken))
    }

    /// The consumer, created if missing, and the last sequence of the stream; a consumer that would lose records is refused.
    async fn consumer(&self, context: &Context) -> Result<(Consumer<Config>, u64), String> {
        let NatsIntakeConfig { consumer: name, subject, .. } = &self.config;
        let stream = consumer::stream(context, &self.config, &self.dead).await?;
        let wanted = Config {
            durable_name: Some(name.clone()),
            ack_policy: AckPolicy::Explicit,
            ack_wait: ACK_WAIT,
            max_ack_pending: self.in_flight.into(),
            filter_subject: subject.clone().unwrap_or_default(),
            ..Config::default()
        };
        let created = stream.get_or_create_consumer(name, wanted).await;
        let created = created.map_err(|error| format!("the consumer `{name}`: {error}"))?;
        consumer::check(&created.cached_info().config, &self.config)?;
        Ok((created, stream.cached_info().state.last_sequence))
    }

    fn opened(&mut self) -> Result<&mut NatsConnection, String> {
        self.open.as_mut().ok_or_else(|| NOT_CONNECTED.to_owned())
    }
}

// === impl NatsConnection ===

impl NatsConnection {
    /// Why nothing may be carried out over this connection any more: another compensator reads the stream by now, or may.
    fn lost(&self) -> Option<&'static str> {
        if *self.broken.borrow() {
            return Some(BROKEN);
        }
        self.turn.is_over().then_some(OVER)
    }

    fn check(&self) -> Result<(), String> {
        self.lost().map_or(Ok(()), |why| Err(why.to_owned()))
    }

    /// Waits for the turn, and looks for records that cannot be read: true if any was found. Acks go out before any request,
    /// because the server would hand out an unreadable record. Cancel safe.
    async fn look_for_unreadable(
        &mut self,
        config: &NatsIntakeConfig,
        progress: &mut ConnectionProgress,
    ) -> Result<bool, String> {
        while !self.suspect.is_empty() && self.unreadable.len() < self.in_flight {
            self.turn.held().await?;
            self.check()?;
            let Some(found) = unreadable::next(&self.context, config, &mut self.suspect).await? else {
                continue;
            };
            let sequence = found.sequence;
            if progress.found(sequence) {
                continue;
            }
            let known = self.outstanding.add(sequence, found.reply.into(), found.record.bytes());
            if known == Arrival::New {
                let ticket = self.ticket(sequence);
                self.unreadable.push(Arrived { record: found.record, ticket });
            }
        }
        Ok(!self.unreadable.is_empty())
    }

    fn ticket(&self, sequence: u64) -> NatsTicket {
        NatsTicket { stream: Arc::clone(&self.stream), sequence, connection: self.number }
    }

    /// Waits for the turn and until everything that is not acked is here. Cancel safe.
    async fn gather(&mut self) -> Result<(), String> {
        if self.is_gathered {
            return Ok(());
        }
        self.turn.held().await?;
        if self.since.is_none() {
            let info = self.ask().await?;
            self.sequences.begin(info.delivered.stream_sequence);
        }
        let since = *self.since.get_or_insert_with(Instant::now);
        loop {
            self.check()?;
            while self.request.is_some()
                && let Some(received) = self.receive().now_or_never()
            {
                received?;
            }
            let info = self.ask().await?;
            let missing = info.num_ack_pending.saturating_sub(self.outstanding.held().0);
            if missing == 0 {
                break;
            }
            // Before that, the server would hand out later records in their place.
            if self.request.is_none() && since.elapsed() > info.config.ack_wait {
                self.request(missing, 0).await?;
            }
            sleep(ASK_EVERY).await;
        }
        self.early.make_contiguous().sort_by_key(|arrived| arrived.ticket.sequence);
        self.is_gathered = true;
        Ok(())
    }

    /// Asks how much is not acked and not handed out. Cancel safe: the next call waits for the same answer.
    async fn ask(&mut self) -> Result<Info, String> {
        let consumer = &self.consumer;
        let asking = self.asking.get_or_insert_with(|| {
            let consumer = consumer.clone();
            tokio::spawn(async move { consumer.get_info().await.map_err(|error| error.to_string()) })
        });
        let answer = asking.await.unwrap_or_else(|panic| Err(panic.to_string()));
        self.asking = None;
        let info = answer?;
        self.pending = info.num_pending;
        self.sequences.passed(info.delivered.stream_sequence);
        Ok(info)
    }

    /// Asks for so many records and bytes; 0 bytes: any. Cancel safe, because the request goes out last.
    async fn request(&mut self, most: usize, max_bytes: usize) -> Result<(), String> {
        let asked = self.consumer.batch().max_messages(most).max_bytes(max_bytes).expires(EXPIRES).messages();
        let records = asked.await.map_err(|error| error.to_string())?;
        self.request = Some(Request { records, since: Instant::now(), count: 0 });
        Ok(())
    }

    /// Number of records and bytes that may be requested; `None`: none.
    fn room(&self) -> Option<(usize, usize)> {
        let (count, bytes) = self.outstanding.held();
        let most = self.in_flight.checked_sub(count).filter(|&most| most > 0)?;
        match self.cramped_at {
            Some(_) if bytes == 0 => Some((1, 0)),
            Some(before) if bytes >= before => None,
            _ => MOST_AHEAD_BYTES.checked_sub(bytes).filter(|&bytes| bytes > 0).map(|bytes| (most, bytes)),
        }
    }

    /// Waits for a record, and keeps the record; asks for more where there is room. Cancel safe.
    async fn take(&mut self) -> Result<(), String> {
        if self.request.is_none()
            && let Some((most, bytes)) = self.room()
        {
            if self.is_idle {
                // Meanwhile the consumer has passed records of other subjects.
                self.ask().await?;
                self.is_idle = false;
            }
            self.request(most, bytes).await?;
        }
        self.receive().await
    }

    /// Waits for a record that was asked for, and asks for nothing more. Records of an earlier connection that are not all here
    /// yet are kept. Cancel safe.
    async fn wait_paused(&mut self) -> Result<(), String> {
        self.ask().await?;
        loop {
            self.sequences.fall_behind();
            self.receive().await?;
            if self.is_gathered && !self.early.is_empty() {
                return Ok(());
            }
        }
    }

    /// Waits for a record of the open request, or for the request's end, and keeps the record. Cancel safe.
    async fn receive(&mut self) -> Result<(), String> {
        let next = async {
            match &mut self.request {
                Some(request) => request.records.next().await,
                None => std::future::pending().await,
            }
        };
        let next = tokio::select! {
            biased;
            _ = self.broken.wait_for(|broken| *broken) => return Err(BROKEN.to_owned()),
            why = self.turn.over() => return Err(why),
            next = next => next,
        };
        match next {
            Some(Ok(message)) => self.arrived(message).await,
            Some(Err(error)) if error.to_string().contains(TOO_LARGE) => {
                let came = self.request.take().is_some_and(|request| request.count > 0);
                self.cramped_at = (!came).then(|| self.outstanding.held().1);
                Ok(())
            }
            Some(Err(error)) => Err(error.to_string()),
            // The request was answered in full, or its lifetime has passed. A request without any answer may still get one.
            None => match self.request.take() {
                Some(request) if request.since.elapsed() > ENDED => {
                    Err("the server left a request for records open".to_owned())
                }
                request => {
                    self.is_idle = request.is_some_and(|request| request.count == 0);
                    Ok(())
                }
            },
        }
    }

    async fn arrived(&mut self, message: Message) -> Result<(), String> {
        let info = message.info().map_err(|error| error.to_string())?;
        self.pending = info.pending;
        let (sequence, record) = (info.stream_sequence, record::record(&message, &info));
        let reply = message.reply.clone().ok_or("a message without an address for its ack")?;
        if let Some(request) = &mut self.request {
            request.count += 1;
        }
        self.cramped_at = None;
        self.sequences.arrived(sequence, info.pending);
        match self.outstanding.add(sequence, reply.clone(), record.bytes()) {
            Arrival::New => {
                let ticket = self.ticket(sequence);
                self.early.push_back(Arrived { record, ticket });
            }
            Arrival::Here => {}
            Arrival::Acked => self.ack(reply).await?,
        }
        Ok(())
    }

    /// Finds out whether sequences that were passed over are dropped. Cancel safe.
    async fn look_for_lost(&mut self) -> Result<(), String> {
        if self.sequences.has_gaps() {
            let stream = self.context.get_stream(&*self.stream).await.map_err(|error| error.to_string())?;
            let info = stream.cached_info();
            self.sequences.look(info.state.first_sequence, info.config.max_messages_per_subject > 0);
        }
        Ok(())
    }

    async fn ack(&self, reply: Subject) -> Result<(), String> {
        self.client.publish(reply, "+ACK".into()).await.map_err(|error| error.to_string())
    }
}

#[async_trait]
impl Broker for NatsSource {
    type Ticket = NatsTicket;

    async fn open(&mut self) -> Result<(), String> {
        self.close().await;
        let (client, publisher, broken) = self.connect().await?;
        let context = jetstream::context::ContextBuilder::new().timeout(PATIENCE).build(client.clone());
        let (consumer, last) = self.consumer(&context).await?;
        let turn = Turn::ask(&client, &self.config.stream, &self.config.consumer).await?;
        let info = consumer.cached_info();
        let suspect = self.progress.connected(info);
        self.connections += 1;
        self.sequences.connected(last);
        self.open = Some(NatsConnection {
            outstanding: Outstanding::start(&client, info.config.ack_wait),
            pending: info.num_pending,
            sequences: mem::replace(&mut self.sequences, Sequences::new(self.config.subject.is_none())),
            is_idle: false,
            client,
            context,
            publisher,
            consumer,
            broken,
            turn,
            request: None,
            cramped_at: None,
            suspect,
            unreadable: Vec::new(),
            in_flight: self.in_flight.into(),
            early: VecDeque::new(),
            is_gathered: false,
            since: None,
            asking: None,
            number: self.connections,
            stream: self.config.stream.as_str().into(),
        });
        Ok(())
    }

    async fn receive(&mut self, is_paused: bool) -> Result<Vec<Arrived<NatsTicket>>, String> {
        let Self { config, progress, open, .. } = self;
        let open = open.as_mut().ok_or(NOT_CONNECTED)?;
        if is_paused {
            open.wait_paused().await?;
        } else {
            open.check()?;
            if open.look_for_unreadable(config, progress).await? {
                return Ok(mem::take(&mut open.unreadable));
            }
            open.gather().await?;
            open.look_for_lost().await?;
            while open.early.is_empty() {
                open.take().await?;
            }
        }
        while let Some(received) = open.receive().now_or_never() {
            received?;
        }
        Ok(mem::take(&mut open.early).into())
    }

    fn place(&self, ticket: &NatsTicket) -> Option<String> {
        Some(ticket.to_string())
    }

    fn is_lost(&self, ticket: &NatsTicket) -> bool {
        self.open.as_ref().is_none_or(|open| open.number != ticket.connection || open.lost().is_some())
    }

    async fn settle(&mut self, tickets: &[&NatsTicket]) -> Result<(), String> {
        let Self { progress, open, .. } = self;
        let open = open.as_mut().ok_or(NOT_CONNECTED)?;
        for ticket in tickets {
            if let Some(reply) = open.outstanding.take(ticket.sequence) {
                open.ack(reply).await?;
                progress.acked(ticket.sequence);
            }
        }
        Ok(())
    }

    async fn bury(&mut self, dead: &[Dead<'_, NatsTicket>]) -> Result<Vec<Buried>, String> {
        let subject = self.dead.clone();
        Ok(dead::publish(&self.opened()?.publisher, &subject, dead).await)
    }

    fn lag(&self) -> Option<u64> {
        self.open.as_ref().map(|open| open.pending + open.outstanding.held().0 as u64)
    }

    fn lost(&mut self) -> Vec<Lost> {
        let Some(open) = &mut self.open else { return Vec::new() };
        let name = &open.stream;
        let lost = |(from, to): (u64, u64)| {
            let place = format!("nats {name} sequences {from} to {}", to - 1);
            Lost { records: to - from, place }
        };
        open.sequences.take_lost().into_iter().map(lost).collect()
    }

    async fn close(&mut self) {
        if let Some(open) = self.open.take() {
            // Sends pending acks first.
            let _ = tokio::time::timeout(PATIENCE, open.client.flush()).await;
            self.sequences = open.sequences;
        }
    }
}
