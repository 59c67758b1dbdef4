//! Consuming: settled records store offsets, which the client commits from time to time, when releasing partitions, and when
//! closing.

use super::config::KafkaIntakeConfig;
use super::dead;
use super::group::Group;
use super::ticket::KafkaTicket;
use crate::intake::broker::{Arrived, Broker, Buried, Dead, Lost, NOT_CONNECTED};
use crate::intake::record::BrokerRecord;
use async_trait::async_trait;
use delayq::UnixMillis;
use delayq_service::brokers::{KafkaAccess, KafkaPublisher, kafka_topic_exists};
use rdkafka::config::FromClientConfigAndContext;
use rdkafka::consumer::{Consumer, StreamConsumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{BorrowedMessage, Header, Headers};
use rdkafka::{Message, TopicPartitionList};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;

/// Maximum time for the brokers' description of all topics.
const PATIENCE: Duration = Duration::from_secs(10);

/// A topic, and the topic of dead records.
pub(crate) struct KafkaSource {
    config: KafkaIntakeConfig,
    topic: Arc<str>,
    dead: String,
    open: Option<KafkaConnection>,
}

struct KafkaConnection {
    consumer: Arc<StreamConsumer<Group>>,
    group: Group,
    /// None after a failure: the next burial reads the password again.
    burial: Option<KafkaPublisher>,
}

// === impl KafkaSource ===

impl KafkaSource {
    /// Connects nothing, but shows whether the settings are understood.
    pub(crate) fn new(config: KafkaIntakeConfig, dead: &str) -> Result<Self, String> {
        let topic = config.topic.as_str().into();
        let source = Self { config, topic, dead: dead.to_owned(), open: None };
        drop(drop_apart(source.connect()?));
        Ok(source)
    }

    fn connect(&self) -> Result<KafkaConnection, String> {
        let mut settings = self.config.access.settings("delayq-compensator")?;
        settings
            .set("group.id", &self.config.group)
            .set("auto.offset.reset", "earliest")
            .set("partition.assignment.strategy", "cooperative-sticky")
            .set("enable.auto.offset.store", "false")
            .set("enable.auto.commit", "true")
            .set("auto.commit.interval.ms", "200")
            .set("allow.auto.create.topics", "false")
            // The read-ahead of librdkafka.
            .set("queued.max.messages.kbytes", "32768")
            .set("session.timeout.ms", "10000")
            .set("statistics.interval.ms", "1000");
        let group = Group::new(&self.config);
        let consumer = StreamConsumer::from_config_and_context(&settings, group.clone());
        let consumer = Arc::new(consumer.map_err(|error| error.to_string())?);
        let burial = Some(dead::producer(&self.config)?);
        Ok(KafkaConnection { consumer, group, burial })
    }

    fn opened(&self) -> Result<&KafkaConnection, String> {
        self.open.as_ref().ok_or_else(|| NOT_CONNECTED.to_owned())
    }
}

// === impl KafkaConnection ===

impl KafkaConnection {
    async fn check(&self, topics: [String; 2], access: &KafkaAccess) -> Result<(), String> {
        let consumer = Arc::clone(&self.consumer);
        let check = move || {
            let metadata = consumer.fetch_metadata(None, PATIENCE)?;
            let exists = |topic: &String| kafka_topic_exists(&metadata, topic, consumer.client(), PATIENCE);
            Ok(topics.iter().try_for_each(exists))
        };
        let checked = tokio::task::spawn_blocking(check).await.map_err(|panic| panic.to_string())?;
        checked.map_err(|error: KafkaError| access.explain(self.group.explain(&error)))?
    }

    /// Judges an error of the client, which recovers from most errors by itself.
    fn judge(&self, error: &KafkaError) -> Result<(), String> {
        use RDKafkaErrorCode as Code;
        match error.rdkafka_error_code() {
            Some(
                Code::BrokerTransportFailure
                | Code::Resolve
                | Code::OperationTimedOut
                | Code::RequestTimedOut
                | Code::NotCoordinator
                | Code::CoordinatorNotAvailable
                | Code::CoordinatorLoadInProgress,
            ) if !matches!(error, KafkaError::MessageConsumptionFatal(_)) => Ok(()),
            _ => Err(self.group.explain(error)),
        }
    }

    fn assigned(&self, topic: &str) -> TopicPartitionList {
        let mut all = TopicPartitionList::new();
        self.group.offsets().assigned().for_each(|partition| {
            all.add_partition(topic, partition);
        });
        all
    }

    fn arrived(&self, topic: &Arc<str>, message: &BorrowedMessage<'_>) -> Option<Arrived<KafkaTicket>> {
        let place = self.group.offsets().hand_out(message.partition(), message.offset())?;
        let (headers, damage) = headers(message);
        let at = message.timestamp().to_millis().and_then(|ms| u64::try_from(ms).ok());
        let record = BrokerRecord {
            headers,
            body: message.payload().unwrap_or_default().to_vec(),
            at: at.map(UnixMillis::new),
            has_no_value: message.payload().is_none(),
            damage,
            ..BrokerRecord::default()
        };
        let key = message.key().map(<[u8]>::to_vec);
        Some(Arrived { record, ticket: KafkaTicket { topic: Arc::clone(topic), place, key } })
    }
}

/// The headers of a message, and whether some are left out: the client panics at a name that is not UTF-8.
fn headers(message: &BorrowedMessage<'_>) -> (Vec<(String, Vec<u8>)>, Option<&'static str>) {
    let (mut all, mut damage) = (Vec::new(), None);
    let Some(headers) = message.headers() else { return (all, damage) };
    for index in 0..headers.count() {
        let read = || {
            let Header { key, value } = headers.get(index);
            (key.to_owned(), value.unwrap_or_default().to_vec())
        };
        // The closure has no state that a panic could leave half changed.
        match catch_unwind(AssertUnwindSafe(read)) {
            Ok(header) => all.push(header),
            Err(_) => damage = Some("the record has a header whose name is not UTF-8, which is omitted"),
        }
    }
    (all, damage)
}

#[async_trait]
impl Broker for KafkaSource {
    type Ticket = KafkaTicket;

    async fn open(&mut self) -> Result<(), String> {
        self.close().await;
        let open = self.connect()?;
        let topics = [self.config.topic.clone(), self.dead.clone()];
        let checked = open.check(topics, &self.config.access).await;
        let subscribe = || open.consumer.subscribe(&[&self.config.topic]).map_err(|error| error.to_string());
        let subscribed = checked.and_then(|()| subscribe());
        match subscribed {
            Ok(()) => self.open = Some(open),
            Err(_) => drop(drop_apart(open)),
        }
        subscribed
    }

    async fn receive(&mut self, is_paused: bool) -> Result<Vec<Arrived<KafkaTicket>>, String> {
        let open = self.opened()?;
        if open.group.set_paused(is_paused) != is_paused {
            let all = open.assigned(&self.config.topic);
            let set = if is_paused { open.consumer.pause(&all) } else { open.consumer.resume(&all) };
            set.map_err(|error| error.to_string())?;
        }
        let message = match open.consumer.recv().await {
            Ok(message) => message,
            Err(error) => return open.judge(&error).map(|()| Vec::new()),
        };
        if is_paused {
            let (partition, offset) = (message.partition(), message.offset());
            return Err(format!("a record arrived while paused: partition {partition} offset {offset}"));
        }
        open.group.words().forget();
        Ok(open.arrived(&self.topic, &message).into_iter().collect())
    }

    fn place(&self, ticket: &KafkaTicket) -> Option<String> {
        Some(ticket.to_string())
    }

    fn is_lost(&self, ticket: &KafkaTicket) -> bool {
        self.open.as_ref().is_none_or(|open| open.group.offsets().is_lost(&ticket.place))
    }

    async fn settle(&mut self, tickets: &[&KafkaTicket]) -> Result<(), String> {
        let open = self.opened()?;
        let mut ends = std::collections::BTreeMap::new();
        for ticket in tickets {
            if let Some(offset) = open.group.offsets().settle(&ticket.place) {
                ends.insert(ticket.place.partition, offset);
            }
        }
        for (partition, offset) in ends {
            let stored = open.consumer.store_offset(&self.config.topic, partition, offset);
            stored.map_err(|error| format!("the offset of partition {partition}: {error}"))?;
        }
        Ok(())
    }

    async fn bury(&mut self, dead: &[Dead<'_, KafkaTicket>]) -> Result<Vec<Buried>, String> {
        let Self { config, dead: topic, open, .. } = self;
        let open = open.as_mut().ok_or(NOT_CONNECTED)?;
        let burial = match open.burial.take() {
            Some(burial) => burial,
            None => dead::producer(config)?,
        };
        let buried = dead::publish(&burial, topic, dead).await;
        match buried.iter().all(Result::is_ok) {
            true => open.burial = Some(burial),
            false => drop(drop_apart(burial)),
        }
        Ok(buried)
    }

    fn lag(&self) -> Option<u64> {
        self.open.as_ref()?.group.lag()
    }

    fn lost(&mut self) -> Vec<Lost> {
        self.open.as_ref().map_or_else(Vec::new, |open| std::mem::take(&mut *open.group.lost()))
    }

    async fn close(&mut self) {
        if let Some(open) = self.open.take() {
            // The drop commits and leaves the group.
            let _ = drop_apart(open).await;
        }
    }
}

/// Drops a client, which waits for threads and for answers of the brokers.
fn drop_apart(client: impl Send + 'static) -> JoinHandle<()> {
    tokio::task::spawn_blocking(move || drop(client))
}
