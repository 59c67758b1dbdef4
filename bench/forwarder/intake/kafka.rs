//! Kafka: the bare consumer puts fetched records and stores its offsets.

use super::{Stand, arrived, headers, message, put};
use crate::deployment::body;
use crate::sinks::course::Course;
use delayq::Producer;
use delayq_compensator::{IntakeConfig, KafkaIntakeConfig};
use delayq_service::brokers::KafkaAccess;
use delayq_tests::kafka_server::KafkaServer;
use futures_util::{StreamExt, stream};
use rdkafka::consumer::{Consumer, StreamConsumer};
use rdkafka::message::{Header, Headers, OwnedHeaders};
use rdkafka::producer::{FutureProducer, FutureRecord};
use rdkafka::{ClientConfig, Message};
use std::sync::Arc;

const TOPIC: &str = "in";
const PARTITIONS: i32 = 4;

pub(super) async fn stand(count: usize) -> Stand {
    let server = KafkaServer::start().await;
    server.create_topic(TOPIC, PARTITIONS, &[]).await;
    server.create_topic("dead", 1, &[]).await;
    let address = server.address();
    publish(&address, count).await;
    let brokers = vec![address.clone()];
    Stand {
        intake: Box::new(move |group| IntakeConfig {
            dead: "dead".to_owned(),
            kafka: Some(KafkaIntakeConfig {
                access: KafkaAccess { brokers: brokers.clone(), ..KafkaAccess::default() },
                topic: TOPIC.to_owned(),
                group,
            }),
            ..IntakeConfig::default()
        }),
        bare: Box::new(move |group, producer, course| {
            Box::pin(consume(address.clone(), group, producer, course, count))
        }),
        _server: Box::new(server),
    }
}

async fn publish(address: &str, count: usize) {
    let mut settings = ClientConfig::new();
    settings.set("bootstrap.servers", address).set("linger.ms", "5");
    let producer: FutureProducer = settings.create().unwrap();
    stream::iter(0..count)
        .map(async |n| {
            let (body, headers) = (body(n), headers(n));
            let mut all = OwnedHeaders::new();
            for (name, value) in &headers {
                all = all.insert(Header { key: name, value: Some(value) });
            }
            let record = FutureRecord::to(TOPIC).key(&headers[0].1).payload(&body).headers(all);
            producer.send_result(record).map_err(|(error, _)| error).unwrap().await.unwrap().unwrap();
        })
        .buffer_unordered(10_000)
        .for_each(async |()| {})
        .await;
}

async fn consume(address: String, group: String, producer: Producer, course: Arc<Course>, count: usize) {
    let mut settings = ClientConfig::new();
    settings.set("bootstrap.servers", address).set("group.id", group).set("auto.offset.reset", "earliest");
    settings.set("enable.auto.offset.store", "false").set("auto.commit.interval.ms", "200");
    let consumer: StreamConsumer = settings.create().unwrap();
    consumer.subscribe(&[TOPIC]).unwrap();
    let (mut records, mut left) = (consumer.stream(), count);
    while left > 0 {
        let batch: Vec<_> = arrived(&mut records).await.into_iter().map(Result::unwrap).collect();
        let messages = batch.iter().map(|record| {
            let id = record.headers().unwrap().get(0).value.unwrap();
            message(std::str::from_utf8(id).unwrap(), record.payload().unwrap())
        });
        put(&producer, messages.collect(), &course).await;
        for record in &batch {
            consumer.store_offset_from_message(record).unwrap();
        }
        left -= batch.len();
    }
}
