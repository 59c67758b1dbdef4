//! RabbitMQ: a separate queue per run, filled beforehand; the bare consumer puts arrived records, and acks each.

use super::{Stand, arrived, headers, message, put};
use crate::deployment::body;
use crate::sinks::course::Course;
use delayq::Producer;
use delayq_compensator::{IntakeConfig, RabbitmqIntakeConfig};
use delayq_service::brokers::RabbitmqAccess;
use delayq_tests::rabbitmq_server::RabbitmqServer;
use futures_util::future::try_join_all;
use futures_util::{StreamExt, stream};
use lapin::options::{
    BasicAckOptions, BasicConsumeOptions, BasicPublishOptions, BasicQosOptions, ConfirmSelectOptions,
    QueueDeclareOptions,
};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{BasicProperties, Channel, Connection, ConnectionProperties};
use std::sync::Arc;

const DEAD: &str = "dead";

/// Acked records are gone, so each run has its own queue; `names` lists all queues.
pub(super) async fn stand(count: usize, names: &[String]) -> Stand {
    let server = RabbitmqServer::start().await;
    let channel = channel(&server.url()).await;
    channel.queue_declare(DEAD.into(), QueueDeclareOptions::durable(), FieldTable::default()).await.unwrap();
    for name in names {
        publish(&channel, name, count).await;
    }
    let (url, address) = (server.url(), server.address());
    Stand {
        intake: Box::new(move |queue| IntakeConfig {
            dead: DEAD.to_owned(),
            rabbitmq: Some(RabbitmqIntakeConfig {
                access: RabbitmqAccess { server: address.parse().unwrap(), ..RabbitmqAccess::default() },
                queue,
                ..RabbitmqIntakeConfig::default()
            }),
            ..IntakeConfig::default()
        }),
        bare: Box::new(move |queue, producer, course| {
            Box::pin(consume(url.clone(), queue, producer, course, count))
        }),
        _server: Box::new(server),
    }
}

async fn channel(url: &str) -> Channel {
    let connection = Connection::connect(url, ConnectionProperties::default()).await.unwrap();
    connection.create_channel().await.unwrap()
}

async fn publish(channel: &Channel, queue: &str, count: usize) {
    let mut arguments = FieldTable::default();
    arguments.insert("x-single-active-consumer".into(), AMQPValue::Boolean(true));
    channel.queue_declare(queue.into(), QueueDeclareOptions::durable(), arguments).await.unwrap();
    channel.confirm_select(ConfirmSelectOptions::default()).await.unwrap();
    stream::iter(0..count)
        .map(async |n| {
            let mut table = FieldTable::default();
            for (name, value) in headers(n) {
                table.insert(name.into(), AMQPValue::LongString(value.into()));
            }
            let properties = BasicProperties::default().with_delivery_mode(2).with_headers(table);
            let options = BasicPublishOptions::default();
            let sent = channel.basic_publish("".into(), queue.into(), options, &body(n), properties).await;
            assert!(sent.unwrap().await.unwrap().is_ack());
        })
        .buffer_unordered(10_000)
        .for_each(async |()| {})
        .await;
}

async fn consume(url: String, queue: String, producer: Producer, course: Arc<Course>, count: usize) {
    let channel = channel(&url).await;
    let ahead = IntakeConfig::default().in_flight;
    channel.basic_qos(ahead, BasicQosOptions::default()).await.unwrap();
    let options = BasicConsumeOptions::default();
    let consumer = channel.basic_consume(queue.into(), "".into(), options, FieldTable::default()).await;
    let (mut records, mut left) = (consumer.unwrap(), count);
    while left > 0 {
        let batch: Vec<_> = arrived(&mut records).await.into_iter().map(Result::unwrap).collect();
        let messages = batch.iter().map(|record| {
            let headers = record.properties.headers().as_ref().unwrap();
            let AMQPValue::LongString(id) = &headers.inner()["delayq-id"] else { panic!("an id is text") };
            message(std::str::from_utf8(id.as_bytes()).unwrap(), &record.data)
        });
        put(&producer, messages.collect(), &course).await;
        let acks =
            batch.iter().map(|record| channel.basic_ack(record.delivery_tag, BasicAckOptions::default()));
        try_join_all(acks).await.unwrap();
        left -= batch.len();
    }
}
