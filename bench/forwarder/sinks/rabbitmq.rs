//! RabbitMQ: the bare client publishes persistent, mandatory messages on one channel and waits for each confirm.

use super::course::Course;
use super::target::{Target, headers, id, in_flight, one_by_one};
use crate::deployment::body;
use delayq_forwarder::{RabbitmqConfig, SinkConfig};
use delayq_service::brokers::RabbitmqAccess;
use delayq_tests::rabbitmq_server::RabbitmqServer;
use lapin::options::{BasicPublishOptions, ConfirmSelectOptions, QueueDeclareOptions};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{BasicProperties, Channel, Connection, ConnectionProperties};
use std::sync::Arc;

pub(crate) async fn target() -> Target {
    let server = RabbitmqServer::start().await;
    let connection = Connection::connect(&server.url(), ConnectionProperties::default()).await.unwrap();
    let channel = connection.create_channel().await.unwrap();
    for queue in ["out", "bare"] {
        let options = QueueDeclareOptions::durable();
        channel.queue_declare(queue.into(), options, FieldTable::default()).await.unwrap();
    }
    channel.confirm_select(ConfirmSelectOptions::default()).await.unwrap();
    let access = RabbitmqAccess { server: server.address().parse().unwrap(), ..RabbitmqAccess::default() };
    let config = RabbitmqConfig { access, ..RabbitmqConfig::default() };
    Target {
        sink: SinkConfig { rabbitmq: Some(config), ..SinkConfig::default() },
        to: "out",
        bare: Box::new(move |count, course| Box::pin(publish(channel.clone(), count, course))),
        _server: Box::new((server, connection)),
    }
}

async fn publish(channel: Channel, count: usize, course: Arc<Course>) {
    one_by_one(count, in_flight(), &course, async |n| {
        let options = BasicPublishOptions { mandatory: true, ..BasicPublishOptions::default() };
        let mut table = FieldTable::default();
        for (name, value) in headers(n) {
            table.insert(name.into(), AMQPValue::LongString(value.into()));
        }
        let properties = BasicProperties::default()
            .with_delivery_mode(2)
            .with_headers(table)
            .with_message_id(format!("t/{}", id(n)).into())
            .with_timestamp(1_700_000_000);
        let confirm =
            channel.basic_publish("".into(), "bare".into(), options, &body(n), properties).await.unwrap();
        assert!(confirm.await.unwrap().is_ack());
    })
    .await;
}
