//! NATS: the bare consumer pulls through a durable consumer, puts arrived records, and acks each.

use super::{Stand, arrived, headers, message, put};
use crate::deployment::body;
use crate::sinks::course::Course;
use async_nats::jetstream;
use async_nats::jetstream::consumer::AckPolicy;
use async_nats::jetstream::consumer::pull::Config as ConsumerConfig;
use async_nats::jetstream::context::ContextBuilder;
use async_nats::jetstream::message::PublishMessage;
use async_nats::jetstream::stream::Config;
use delayq::Producer;
use delayq_compensator::{IntakeConfig, NatsIntakeConfig};
use delayq_service::brokers::NatsAccess;
use delayq_tests::nats_server::NatsServer;
use futures_util::{StreamExt, stream};
use std::sync::Arc;

pub(super) async fn stand(count: usize) -> Stand {
    let server = NatsServer::start(&[]).await;
    let url = server.url();
    publish(&url, count).await;
    let servers = vec![url.clone()];
    Stand {
        intake: Box::new(move |consumer| IntakeConfig {
            dead: "dead".to_owned(),
            nats: Some(NatsIntakeConfig {
                access: NatsAccess { servers: servers.clone(), ..NatsAccess::default() },
                stream: "in".to_owned(),
                consumer,
                ..NatsIntakeConfig::default()
            }),
            ..IntakeConfig::default()
        }),
        bare: Box::new(move |consumer, producer, course| {
            Box::pin(consume(url.clone(), consumer, producer, course, count))
        }),
        _server: Box::new(server),
    }
}

async fn publish(url: &str, count: usize) {
    let context =
        ContextBuilder::new().max_ack_inflight(65_536).build(async_nats::connect(url).await.unwrap());
    for name in ["in", "dead"] {
        let config = Config { name: name.to_owned(), subjects: vec![name.to_owned()], ..Config::default() };
        context.create_stream(config).await.unwrap();
    }
    stream::iter(0..count)
        .map(async |n| {
            let mut message = PublishMessage::build().payload(body(n).into());
            for (name, value) in headers(n) {
                message = message.header(name, value.as_str());
            }
            context.send_publish("in", message).await.unwrap().await.unwrap();
        })
        .buffer_unordered(10_000)
        .for_each(async |()| {})
        .await;
}

async fn consume(url: String, name: String, producer: Producer, course: Arc<Course>, count: usize) {
    let context = jetstream::new(async_nats::connect(url).await.unwrap());
    let ahead = IntakeConfig::default().in_flight;
    let config = ConsumerConfig {
        durable_name: Some(name),
        ack_policy: AckPolicy::Explicit,
        max_ack_pending: ahead.into(),
        ..ConsumerConfig::default()
    };
    let consumer = context.create_consumer_on_stream(config, "in").await.unwrap();
    let mut records = consumer.stream().max_messages_per_batch(ahead.into()).messages().await.unwrap();
    let mut left = count;
    while left > 0 {
        let batch: Vec<_> = arrived(&mut records).await.into_iter().map(Result::unwrap).collect();
        let messages = batch.iter().map(|record| {
            let id = record.headers.as_ref().unwrap().get("delayq-id").unwrap();
            message(id.as_str(), &record.payload)
        });
        put(&producer, messages.collect(), &course).await;
        for record in &batch {
            record.ack().await.unwrap();
        }
        left -= batch.len();
    }
}
