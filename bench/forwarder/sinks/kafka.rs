//! Kafka: the bare client is an idempotent producer that waits for each record's ack from all replicas.

use super::course::Course;
use super::target::{Target, headers, id, in_flight, one_by_one};
use crate::deployment::body;
use delayq_forwarder::{KafkaConfig, SinkConfig};
use delayq_service::brokers::KafkaAccess;
use delayq_tests::kafka_server::KafkaServer;
use rdkafka::ClientConfig;
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{FutureProducer, FutureRecord};
use std::sync::Arc;

pub(crate) async fn target() -> Target {
    let server = KafkaServer::start().await;
    for name in ["out", "bare"] {
        server.create_topic(name, 3, &[]).await;
    }
    let access = KafkaAccess { brokers: vec![server.address()], ..KafkaAccess::default() };
    let config = KafkaConfig { access, ..KafkaConfig::default() };
    let producer: FutureProducer = ClientConfig::new()
        .set("bootstrap.servers", server.address())
        .set("acks", "all")
        .set("enable.idempotence", "true")
        .set("linger.ms", "1")
        .create()
        .unwrap();
    Target {
        sink: SinkConfig { kafka: Some(config), ..SinkConfig::default() },
        to: "out",
        bare: Box::new(move |count, course| Box::pin(publish(producer.clone(), count, course))),
        _server: Box::new(server),
    }
}

async fn publish(producer: FutureProducer, count: usize, course: Arc<Course>) {
    one_by_one(count, in_flight(), &course, async |n| {
        let (key, body) = (id(n), body(n));
        let mut all = OwnedHeaders::new_with_capacity(7);
        for (name, value) in &headers(n) {
            all = all.insert(Header { key: name, value: Some(value.as_bytes()) });
        }
        let record =
            FutureRecord::to("bare").key(&key).payload(&body).headers(all).timestamp(1_700_000_000_000);
        producer.send_result(record).map_err(|(error, _)| error).unwrap().await.unwrap().unwrap();
    })
    .await;
}
