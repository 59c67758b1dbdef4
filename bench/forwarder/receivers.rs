//! Independent consumers: each reads one destination from its start and says how late every message was.

use crate::due::late_us;
use delayq_tests::redis_server::{RedisServer, SharedRedis};
use redis::aio::MultiplexedConnection;
use redis::streams::{StreamReadOptions, StreamReadReply};
use redis::{AsyncCommands, from_redis_value};
use std::any::Any;
use std::pin::Pin;
use tokio::sync::mpsc::UnboundedSender;

/// Lateness of each message, in microseconds.
pub(crate) type Seen = UnboundedSender<u64>;
/// Reads until it is dropped.
pub(crate) type Receiving = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A destination `out` with a consumer.
pub(crate) struct Receiver {
    /// The section of the sink `s` that delivers there.
    pub(crate) sink: String,
    pub(crate) receive: Box<dyn FnOnce(Seen) -> Receiving>,
    /// The server, stopped with it.
    pub(crate) _server: Box<dyn Any>,
}

pub(crate) async fn redis_stream() -> Receiver {
    let server = RedisServer::private().await;
    let connection = connect(&server).await;
    Receiver {
        sink: format!("[sinks.s.redis-stream.redis]\nurl = \"{}\"\n", server.url()),
        receive: Box::new(|seen| {
            Box::pin(read_streams(connection, vec!["out".to_owned()], move |_, late| {
                let _ = seen.send(late);
            }))
        }),
        _server: Box::new(server),
    }
}

/// A connection of its own, which may wait for ever.
pub(crate) async fn connect(server: &SharedRedis) -> MultiplexedConnection {
    let settings = redis::AsyncConnectionConfig::new().set_response_timeout(None);
    let client = redis::Client::open(server.url()).unwrap();
    client.get_multiplexed_async_connection_with_config(&settings).await.unwrap()
}

/// Reads streams from their start, and tells each entry's stream and lateness.
pub(crate) async fn read_streams(
    mut connection: MultiplexedConnection,
    keys: Vec<String>,
    mut seen: impl FnMut(&str, u64),
) {
    let options = StreamReadOptions::default().block(0).count(1000);
    let mut places = vec!["0".to_owned(); keys.len()];
    loop {
        let reply: StreamReadReply = connection.xread_options(&keys, &places, &options).await.unwrap();
        for stream in reply.keys {
            let place = keys.iter().position(|key| *key == stream.key).unwrap();
            for entry in stream.ids {
                let body: Vec<u8> = from_redis_value(entry.map["payload"].clone()).unwrap();
                seen(&stream.key, late_us(&body));
                places[place] = entry.id;
            }
        }
    }
}

pub(crate) mod nats {
    //! A pull consumer of a stream.

    use super::{Receiver, late_us};
    use async_nats::jetstream::stream::Config;
    use async_nats::jetstream::{self, consumer};
    use delayq_tests::nats_server::NatsServer;
    use futures_util::StreamExt;

    pub(crate) async fn start() -> Receiver {
        let server = NatsServer::start(&[]).await;
        let client = async_nats::connect(server.url()).await.unwrap();
        let stream = Config { name: "S".to_owned(), subjects: vec!["out".to_owned()], ..Config::default() };
        let stream = jetstream::new(client).create_stream(stream).await.unwrap();
        let settings = consumer::pull::Config {
            ack_policy: consumer::AckPolicy::None,
            ..consumer::pull::Config::default()
        };
        let consumer = stream.create_consumer(settings).await.unwrap();
        Receiver {
            sink: format!("[sinks.s.nats]\nservers = [\"{}\"]\n", server.url()),
            receive: Box::new(|seen| {
                Box::pin(async move {
                    let mut messages = consumer.messages().await.unwrap();
                    while let Some(message) = messages.next().await {
                        let _ = seen.send(late_us(&message.unwrap().payload));
                    }
                })
            }),
            _server: Box::new(server),
        }
    }
}

pub(crate) mod rabbitmq {
    //! A consumer of a durable queue.

    use super::{Receiver, late_us};
    use delayq_tests::rabbitmq_server::RabbitmqServer;
    use futures_util::StreamExt;
    use lapin::options::{BasicConsumeOptions, QueueDeclareOptions};
    use lapin::types::FieldTable;
    use lapin::{Connection, ConnectionProperties};

    pub(crate) async fn start() -> Receiver {
        let server = RabbitmqServer::start().await;
        let connection = Connection::connect(&server.url(), ConnectionProperties::default()).await.unwrap();
        let channel = connection.create_channel().await.unwrap();
        let options = QueueDeclareOptions::durable();
        channel.queue_declare("out".into(), options, FieldTable::default()).await.unwrap();
        let options = BasicConsumeOptions { no_ack: true, ..BasicConsumeOptions::default() };
        let mut consumer = channel
            .basic_consume("out".into(), "bench".into(), options, FieldTable::default())
            .await
            .unwrap();
        Receiver {
            sink: format!("[sinks.s.rabbitmq]\nserver = \"{}\"\n", server.address()),
            receive: Box::new(|seen| {
                Box::pin(async move {
                    while let Some(delivery) = consumer.next().await {
                        let _ = seen.send(late_us(&delivery.unwrap().data));
                    }
                })
            }),
            _server: Box::new((server, connection, channel)),
        }
    }
}

pub(crate) mod kafka {
    //! A consumer of every partition of a topic.

    use super::{Receiver, late_us};
    use delayq_tests::kafka_server::KafkaServer;
    use rdkafka::consumer::{Consumer, StreamConsumer};
    use rdkafka::{ClientConfig, Message, Offset, TopicPartitionList};

    pub(crate) async fn start() -> Receiver {
        let server = KafkaServer::start().await;
        server.create_topic("out", 3, &[]).await;
        let mut settings = ClientConfig::new();
        settings.set("bootstrap.servers", server.address()).set("group.id", "bench");
        let consumer: StreamConsumer = settings.create().unwrap();
        let mut partitions = TopicPartitionList::new();
        for partition in 0..3 {
            partitions.add_partition_offset("out", partition, Offset::Beginning).unwrap();
        }
        consumer.assign(&partitions).unwrap();
        Receiver {
            sink: format!("[sinks.s.kafka]\nbrokers = [\"{}\"]\n", server.address()),
            receive: Box::new(|seen| {
                Box::pin(async move {
                    loop {
                        let record = consumer.recv().await.unwrap();
                        let _ = seen.send(late_us(record.payload().unwrap()));
                    }
                })
            }),
            _server: Box::new(server),
        }
    }
}
