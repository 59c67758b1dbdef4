//! NATS JetStream: the bare client publishes with a message id and waits for each ack.

use super::course::Course;
use super::target::{Target, headers, id, in_flight, one_by_one};
use crate::deployment::body;
use async_nats::jetstream::context::ContextBuilder;
use async_nats::jetstream::message::PublishMessage;
use async_nats::jetstream::stream::Config;
use async_nats::jetstream::{self, Context};
use delayq_forwarder::{NatsConfig, SinkConfig};
use delayq_service::brokers::NatsAccess;
use delayq_tests::nats_server::NatsServer;
use std::sync::Arc;

pub(crate) async fn target() -> Target {
    let server = NatsServer::start(&[]).await;
    let client = async_nats::connect(server.url()).await.unwrap();
    let stream = Config {
        name: "S".to_owned(),
        subjects: vec!["out".to_owned(), "bare".to_owned()],
        ..Config::default()
    };
    jetstream::new(client.clone()).create_stream(stream).await.unwrap();
    let context = ContextBuilder::new().max_ack_inflight(65_536).build(client);
    let access = NatsAccess { servers: vec![server.url()], ..NatsAccess::default() };
    let config = NatsConfig { access, ..NatsConfig::default() };
    Target {
        sink: SinkConfig { nats: Some(config), ..SinkConfig::default() },
        to: "out",
        bare: Box::new(move |count, course| Box::pin(publish(context.clone(), count, course))),
        _server: Box::new(server),
    }
}

async fn publish(context: Context, count: usize, course: Arc<Course>) {
    one_by_one(count, in_flight(), &course, async |n| {
        let mut message = PublishMessage::build().payload(body(n).into()).message_id(format!("t/{}", id(n)));
        for (name, value) in headers(n) {
            message = message.header(name, value.as_str());
        }
        context.send_publish("bare", message).await.unwrap().await.unwrap();
    })
    .await;
}
