//! Redis Streams: the bare client pipelines XADDs over one connection.

use super::course::Course;
use super::target::{Target, batch, headers, in_flight};
use crate::deployment::body;
use ::redis::aio::MultiplexedConnection;
use delayq_forwarder::{RedisSinkConfig, SinkConfig};
use delayq_service::config::RedisConfig;
use delayq_tests::redis_server::RedisServer;
use futures_util::{StreamExt, stream};
use std::sync::Arc;

pub(crate) async fn target() -> Target {
    let server = RedisServer::private().await;
    let other = RedisConfig { url: server.url().parse().unwrap(), ..RedisConfig::default() };
    let config = RedisSinkConfig { server: Some(other), ..RedisSinkConfig::default() };
    let client = ::redis::Client::open(server.url()).unwrap();
    let connection = client.get_multiplexed_async_connection().await.unwrap();
    Target {
        sink: SinkConfig { redis: Some(config), ..SinkConfig::default() },
        to: "out",
        bare: Box::new(move |count, course| Box::pin(publish(connection.clone(), count, course))),
        _server: Box::new(server),
    }
}

async fn publish(connection: MultiplexedConnection, count: usize, course: Arc<Course>) {
    stream::iter((0..count).step_by(batch()))
        .map(|first| {
            let mut connection = connection.clone();
            let course = &course;
            async move {
                let end = count.min(first + batch());
                let mut pipeline = ::redis::pipe();
                for n in first..end {
                    pipeline.cmd("XADD").arg("bare").arg("*").arg("payload").arg(body(n));
                    for (name, value) in headers(n) {
                        pipeline.arg(name).arg(value);
                    }
                }
                pipeline.exec_async(&mut connection).await.unwrap();
                course.confirmed(end - first);
            }
        })
        .buffer_unordered(in_flight() / batch())
        .for_each(async |()| {})
        .await;
}
