//! Redis Streams: the bare client pipelines XADDs over one connection.

use delayq_forwarder::{RedisStreamConfig, SinkConfig};
use delayq_service::config::RedisConfig;
use delayq_tests::redis_server::RedisServer;
use futures_util::{StreamExt, stream};
use redis::aio::MultiplexedConnection;

use super::target::{Target, batch, headers, in_flight};
use crate::deployment::body;

pub(crate) async fn target() -> Target {
    let server = RedisServer::start().await;
    let other = RedisConfig { url: server.url().parse().unwrap(), ..RedisConfig::default() };
    let config = RedisStreamConfig { redis: Some(other), ..RedisStreamConfig::default() };
    let client = redis::Client::open(server.url()).unwrap();
    let connection = client.get_multiplexed_async_connection().await.unwrap();
    Target {
        sink: SinkConfig { redis_stream: Some(config), ..SinkConfig::default() },
        to: "out",
        bare: Box::new(move |count| Box::pin(publish(connection.clone(), count))),
        _server: Box::new(server),
    }
}

async fn publish(connection: MultiplexedConnection, count: usize) {
    stream::iter((0..count).step_by(batch()))
        .map(|first| {
            let mut connection = connection.clone();
            async move {
                let mut pipeline = redis::pipe();
                for n in first..count.min(first + batch()) {
                    pipeline.cmd("XADD").arg("bare").arg("*").arg("payload").arg(body(n));
                    for (name, value) in headers(n) {
                        pipeline.arg(name).arg(value);
                    }
                }
                pipeline.exec_async(&mut connection).await.unwrap();
            }
        })
        .buffer_unordered(in_flight() / batch())
        .for_each(async |()| {})
        .await;
}
