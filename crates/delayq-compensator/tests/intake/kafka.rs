//! The intake `kafka`.

use crate::conformance::{self, conforms};
use crate::guide;
use crate::look::look;
use crate::stage::{Broker, Guard, PASSWORD, Place, Sent, Stage, USER};
use delayq_compensator::IntakeFault;
use delayq_tests::content::texts;
use delayq_tests::deadline::{LONG, wait_for, wait_until};
use delayq_tests::kafka_listener::Listener;
use delayq_tests::kafka_server::KafkaServer;
use delayq_tests::lent::Lent;
use delayq_tests::shared::namespace;
use futures_util::future::join_all;
use rdkafka::admin::{AdminClient, AdminOptions};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::{Header, Headers, OwnedHeaders};
use rdkafka::producer::{
    BaseRecord, DefaultProducerContext, FutureProducer, FutureRecord, Producer, ThreadedProducer,
};
use rdkafka::{ClientConfig, Message, Offset, TopicPartitionList};
use std::time::Duration;

const TOPIC: &str = "orders-in";
const DEAD: &str = "orders-dead";
const PARTITIONS: i32 = 4;
const PATIENCE: Duration = Duration::from_secs(30);

struct Kafka {
    server: Lent<KafkaServer>,
    /// A killed compensator of an earlier test stays a member of its group for a while.
    group: String,
    producer: FutureProducer,
    guarded: Option<Listener>,
}

impl Kafka {
    fn producer(server: &KafkaServer) -> FutureProducer {
        let mut settings = ClientConfig::new();
        settings.set("bootstrap.servers", server.address()).set("linger.ms", "5");
        settings.set("partitioner", "murmur2_random");
        settings.create().unwrap()
    }

    fn settings(&self) -> ClientConfig {
        let mut settings = ClientConfig::new();
        settings.set("bootstrap.servers", self.server.address()).set("group.id", &self.group);
        settings.set("enable.auto.commit", "false");
        settings
    }
}

impl Broker for Kafka {
    const EVENT_PREFIX: &'static str = "ce_";
    const MISSING: &'static str = "the topic `orders-in` does not exist";
    const ORIGIN: &'static str = "kafka orders-in/";

    const TLS: &'static str = "tls = true\n";
    const LOGIN: &'static str = "mechanism = \"PLAIN\"\n";

    async fn start(guard: Guard<'_>) -> Self {
        let guarded = match guard {
            Guard::Open => None,
            Guard::Asking(authority) => {
                Some(Listener::plain().certificate(&authority.server()).asking(&authority.authority()))
            }
            Guard::Login => Some(Listener::plain().login(USER, PASSWORD)),
        };
        let server = match &guarded {
            None => Lent::take(KafkaServer::start).await,
            Some(listener) => KafkaServer::start_with(std::slice::from_ref(listener)).await.into(),
        };
        let broker = Self { producer: Self::producer(&server), server, group: namespace(), guarded };
        let admin: AdminClient<DefaultClientContext> = broker.settings().create().unwrap();
        let _ = admin.delete_topics(&[TOPIC, DEAD], &AdminOptions::new()).await.unwrap();
        broker.create(Place::Source).await;
        broker.create(Place::Dead).await;
        broker
    }

    fn section(&self) -> String {
        format!(
            "dead = \"{DEAD}\"\n[intake.orders.kafka]\nbrokers = [\"{}\"]\ntopic = \"{TOPIC}\"\ngroup = \"{}\"\n",
            self.guarded.as_ref().map_or_else(|| self.server.address(), Listener::address),
            self.group
        )
    }

    async fn publish(&self, records: Vec<Sent>) {
        let sends = records.iter().map(|record| {
            let headers = record.headers.iter().fold(OwnedHeaders::new(), |headers, (name, value)| {
                headers.insert(Header { key: name, value: Some(value) })
            });
            let record = FutureRecord::to(TOPIC).key(&record.key).payload(&record.body).headers(headers);
            self.producer.send(record, PATIENCE)
        });
        for sent in join_all(sends).await {
            sent.unwrap();
        }
    }

    async fn dead(&self, count: usize) -> Vec<Sent> {
        let consumer: BaseConsumer = self.settings().create().unwrap();
        let mut all = TopicPartitionList::new();
        all.add_partition_offset(DEAD, 0, Offset::Beginning).unwrap();
        consumer.assign(&all).unwrap();
        let read = move || {
            let mut found = Vec::new();
            while found.len() < count {
                let message = consumer.poll(LONG).expect("a dead record").unwrap();
                let headers = message.headers().unwrap().iter().map(|header| {
                    (header.key.to_owned(), String::from_utf8(header.value.unwrap().to_vec()).unwrap())
                });
                found.push(Sent {
                    headers: headers.collect(),
                    body: message.payload().unwrap_or_default().to_vec(),
                    key: String::from_utf8(message.key().unwrap_or_default().to_vec()).unwrap(),
                });
            }
            found
        };
        tokio::task::spawn_blocking(read).await.unwrap()
    }

    async fn buried(&self) -> u64 {
        let consumer: BaseConsumer = self.settings().create().unwrap();
        let look = move || consumer.fetch_watermarks(DEAD, 0, PATIENCE).unwrap().1.try_into().unwrap();
        tokio::task::spawn_blocking(look).await.unwrap()
    }

    /// High watermark minus the group's committed offset, read by a client outside the group.
    async fn unsettled(&self) -> u64 {
        let settings = self.settings();
        let look = move || {
            let consumer: BaseConsumer = settings.create().unwrap();
            let mut all = TopicPartitionList::new();
            all.add_partition_range(TOPIC, 0, PARTITIONS - 1);
            // A broker that just started does not say at once who coordinates the group.
            let committed = consumer.committed_offsets(all, PATIENCE).ok()?;
            let behind = committed.elements().into_iter().map(|partition| {
                let (low, high) = consumer.fetch_watermarks(TOPIC, partition.partition(), PATIENCE).unwrap();
                let committed = partition.offset().to_raw().filter(|&offset| offset >= 0).unwrap_or(low);
                u64::try_from(high - committed).unwrap()
            });
            Some(behind.sum())
        };
        wait_for("the committed offsets", LONG, async || {
            tokio::task::spawn_blocking(look.clone()).await.unwrap()
        })
        .await
    }

    async fn delete(&self, place: Place) {
        let admin: AdminClient<DefaultClientContext> = self.settings().create().unwrap();
        let name = topic(place).0;
        let gone = admin.delete_topics(&[name], &AdminOptions::new()).await.unwrap();
        assert_eq!(gone, [Ok(name.to_owned())]);
    }

    async fn create(&self, place: Place) {
        let (name, partitions) = topic(place);
        self.server.create_topic(name, partitions, &[]).await;
    }

    async fn kill(&mut self) {
        self.server.kill().await;
    }

    async fn resume(&mut self) {
        self.server.resume().await;
    }
}

const fn topic(place: Place) -> (&'static str, i32) {
    match place {
        Place::Source => (TOPIC, PARTITIONS),
        Place::Dead => (DEAD, 1),
    }
}

conforms!(Kafka);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_dead_destination_took_is_not_buried_again() {
    let refuse = async |kafka: &Kafka| {
        kafka.delete(Place::Dead).await;
        kafka.server.create_topic(DEAD, 1, &[("max.message.bytes", "10000")]).await;
    };
    conformance::what_the_dead_destination_took_is_not_buried_again::<Kafka>(refuse, 19).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_header_whose_name_is_not_utf_8_is_buried_without_it_and_stops_nobody() {
    let stage = Stage::<Kafka>::start().await;
    let compensator = stage.compensator("topic = \"orders\"").await;
    let script = format!(
        "printf poison | kcat -b {} -P -t {TOPIC} -p 0 -k a -H \"$(printf '\\377')=1\" -H delayq-id=a",
        stage.broker.server.address()
    );
    let sent = std::process::Command::new("sh").args(["-c", &script]).output().unwrap();
    assert!(sent.status.success(), "{sent:?}");
    stage.broker.publish(vec![Sent::put("b", &[])]).await;
    stage.has_delayed(1).await;
    let dead = stage.broker.dead(1).await;
    assert!(dead[0].header("delayq-reason").contains("a header whose name is not UTF-8"), "{dead:?}");
    assert_eq!((dead[0].header("delayq-id"), &dead[0].body[..], &*dead[0].key), ("a", &b"poison"[..], "a"));
    stage.is_settled().await;
    compensator.stop().await;
}

impl Kafka {
    async fn publish_to(&self, partition: i32, ids: std::ops::Range<u32>) {
        for n in ids {
            let headers = [("delayq-topic", "orders"), ("delayq-due", "4102444800000")];
            let id = format!("p{partition}-{n}");
            let headers = headers
                .iter()
                .chain([&("delayq-id", id.as_str())])
                .fold(OwnedHeaders::new(), |headers, (name, value)| {
                    headers.insert(Header { key: name, value: Some(*value) })
                });
            let record =
                FutureRecord::<str, str>::to(TOPIC).partition(partition).payload("x").headers(headers);
            self.producer.send(record, PATIENCE).await.unwrap();
        }
    }

    async fn drop_before(&self, partition: i32, offset: i64) {
        let admin: AdminClient<DefaultClientContext> = self.settings().create().unwrap();
        let mut offsets = TopicPartitionList::new();
        offsets.add_partition_offset(TOPIC, partition, Offset::Offset(offset)).unwrap();
        admin.delete_records(&offsets, &AdminOptions::new()).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_retention_dropped_before_it_was_read_is_counted_and_a_transaction_is_no_loss() {
    let stage = Stage::<Kafka>::start().await;
    let first = stage.compensator("").await;
    stage.broker.publish_to(0, 0..10).await;
    stage.has_delayed(10).await;
    stage.is_settled().await;
    first.stop().await;
    stage.broker.publish_to(0, 10..30).await;
    stage.broker.drop_before(0, 22).await;
    let seen = look(&stage.broker, "").await.unwrap();
    assert_eq!((seen.lag, seen.lost), (8, 12));
    let compensator = stage.compensator("").await;
    stage.has_delayed(18).await;
    compensator.shows("intake_lost_total{intake=\"orders\"}", 12.0).await;
    // The end of a transaction takes an offset, and so does every record of an aborted transaction.
    let producer: ThreadedProducer<DefaultProducerContext> = ClientConfig::new()
        .set("bootstrap.servers", stage.broker.server.address())
        .set("transactional.id", "test")
        .create()
        .unwrap();
    let records = move || {
        producer.init_transactions(PATIENCE).unwrap();
        for is_kept in [false, true, false, true] {
            producer.begin_transaction().unwrap();
            for n in 0..3 {
                let headers =
                    OwnedHeaders::new().insert(Header { key: "delayq-id", value: Some(&format!("t{n}")) });
                let headers = headers.insert(Header { key: "delayq-topic", value: Some("orders") });
                let headers = headers.insert(Header { key: "delayq-due", value: Some("4102444800000") });
                let record = BaseRecord::<str, str>::to(TOPIC).partition(0).payload("x").headers(headers);
                producer.send(record).map_err(|(error, _)| error).unwrap();
            }
            match is_kept {
                true => producer.commit_transaction(PATIENCE).unwrap(),
                false => producer.abort_transaction(PATIENCE).unwrap(),
            }
        }
    };
    tokio::task::spawn_blocking(records).await.unwrap();
    stage.broker.publish_to(0, 30..31).await;
    stage.has_delayed(22).await;
    stage.is_settled().await;
    compensator.shows("intake_lost_total{intake=\"orders\"}", 12.0).await;
    compensator.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tombstone_is_buried() {
    let stage = Stage::<Kafka>::start().await;
    let compensator = stage.compensator("").await;
    let headers = OwnedHeaders::new().insert(Header { key: "delayq-id", value: Some("a") });
    let headers = headers.insert(Header { key: "delayq-topic", value: Some("orders") });
    let record = FutureRecord::<str, str>::to(TOPIC).key("a").headers(headers);
    stage.broker.producer.send(record, PATIENCE).await.unwrap();
    let dead = stage.broker.dead(1).await;
    assert!(dead[0].header("delayq-reason").contains("a tombstone is not a put"), "{dead:?}");
    compensator.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_permissions_of_the_guide_are_all_that_an_intake_needs_and_one_that_is_missing_is_named() {
    let listener = Listener::plain().login(USER, PASSWORD);
    let server = KafkaServer::start_with_acls(&listener).await;
    for (name, partitions) in [topic(Place::Source), topic(Place::Dead)] {
        server.create_topic(name, partitions, &[]).await;
    }
    let producer = Kafka::producer(&server);
    let stage = Stage::on(Kafka {
        server: server.into(),
        producer,
        group: "delayq".to_owned(),
        guarded: Some(listener),
    })
    .await;
    let login = format!("mechanism = \"PLAIN\"\nusername = \"{USER}\"\npassword = \"{PASSWORD}\"\n");
    let block = guide::block("# Kafka: read the topic").replace("kafka:9092", &stage.broker.server.address());
    let tool = stage.broker.server.acl_tool();
    let run = |commands: &str| guide::run(stage.folder.path(), &format!("{tool}{commands}"));
    run(&block);
    guide::rights_are_enough(&stage, &login).await;

    let commands: Vec<&str> = block.lines().filter(|line| line.starts_with("kafka-acls.sh ")).collect();
    let denied = [
        "the user has no right on the topic `orders-in`",
        "the user has no right Read on the group `delayq`",
        "the user has no right on the topic `orders-dead`",
    ];
    assert_eq!(commands.len(), denied.len());
    for (command, why) in commands.into_iter().zip(denied) {
        run(&command.replace("--add", "--remove --force"));
        names_what_is_missing(&stage, &login, why).await;
        run(command);
    }
    let described = block.replace("--operation Read --topic", "--operation Describe --topic");
    run(&format!("{}\n{described}", block.replace("--add", "--remove --force")));
    let compensator = stage.compensator_with("", &login).await;
    compensator.is_unready("the user has no right Read on the topic `orders-in`").await;
    compensator.stop().await;
    let described = block.replace("--operation Write", "--operation Describe");
    run(&format!("{}\n{described}", block.replace("--add", "--remove --force")));
    let compensator = stage.compensator_with("", &login).await;
    stage.broker.publish(vec![Sent::new(&[], "without an id")]).await;
    compensator.is_unready("the user has no right Write on it").await;
    run(&block);
    stage.broker.dead(2).await;
    compensator.stop().await;
}

async fn names_what_is_missing(stage: &Stage<Kafka>, login: &str, why: &str) {
    let compensator = stage.compensator_with("", login).await;
    compensator.is_unready(why).await;
    compensator.stop().await;
    let seen = look(&stage.broker, login).await;
    assert!(matches!(&seen, Err(IntakeFault::Unusable(said)) if said.contains(why)), "{seen:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_commands_of_the_guide_take_a_payload_of_any_content_byte_for_byte() {
    let stage = Stage::<Kafka>::start().await;
    let compensator = stage.compensator("topic = \"orders\"").await;
    let folder = stage.folder.path();
    let block = guide::block("# one record, by kcat").replace("kafka:9092", &stage.broker.server.address());
    let (put, cancel) = block.split_once("# and its cancel").unwrap();
    guide::run(folder, put);
    stage.has_delayed(1).await;
    assert_eq!(guide::stored(&stage, "order-17").await, br#"{"order":17}"#);
    let (_, publish) = put.split_once("order.json\n").unwrap();
    for (n, payload) in texts().iter().enumerate() {
        std::fs::write(folder.join("order.json"), payload).unwrap();
        guide::run(folder, &publish.replace("order-17", &format!("m{n}")));
    }
    stage.has_delayed(1 + texts().len() as u64).await;
    for (n, payload) in texts().iter().enumerate() {
        let stored = guide::stored(&stage, &format!("m{n}")).await;
        assert!(stored == payload.as_bytes(), "{n}: {} bytes", stored.len());
    }
    guide::run(folder, &format!("#{cancel}"));
    wait_until("the cancel", LONG, async || stage.books().await.cancelled == 1).await;
    compensator.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_program_of_the_guide_takes_a_payload_of_any_content_byte_for_byte() {
    let stage = Stage::<Kafka>::start().await;
    let compensator = stage.compensator("topic = \"orders\"").await;
    let program = guide::block("from confluent_kafka ").replace("kafka:9092", &stage.broker.server.address());
    guide::program(&stage, &program, "order-17", r#"{"order":17}"#).await;
    compensator.stop().await;
}
