//! Each sink end to end, from ready in Redis to confirmed, beside a bare client that publishes the same bodies with the
//! same confirms, and beside the limit of Redis alone (reserve and ack).
//!
//! `cargo run --release -p delayq-forwarder --features all-sinks --example sink_bench -- [MESSAGES] [SINK …]`

#![allow(clippy::unwrap_used, reason = "a benchmark may panic")]

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use delayq_core::{
    Admin, Client, Message, Namespace, Producer, ProducerOptions, ReserveRequest, Settings, ShardCount, Topic,
};
use delayq_forwarder::{
    Deps, FileConfig, ForwarderConfig, RedisStreamConfig, RouteConfig, SinkConfig, build,
};
use delayq_service::config::RedisConfig;
use delayq_service::{Metrics, Readiness, Shutdown, install_tls};
use delayq_tests::redis_server::RedisServer;
use delayq_tests::shared::namespace;
use futures_util::{StreamExt, stream};

const BODY_BYTES: usize = 200;
const BATCH: usize = 256;
const IN_FLIGHT: usize = 2048;

/// A deployment with ready messages.
struct Ready {
    client: Client,
    redis: RedisConfig,
    count: usize,
}

fn body(n: usize) -> Vec<u8> {
    let mut body = format!("{{\"n\":{n}}}").into_bytes();
    body.resize(BODY_BYTES, b' ');
    body
}

fn topic() -> Topic {
    Topic::new("t").unwrap()
}

async fn ready(server: &RedisServer, count: usize) -> Ready {
    let settings = Settings {
        namespace: Namespace::new(namespace()).unwrap(),
        shards: ShardCount::new(16).unwrap(),
        ..Settings::new(server.url())
    };
    let client = Client::new(settings);
    client.init().await.unwrap();
    let producer = Producer::start(client.clone(), ProducerOptions::default());
    for chunk in (0..count).collect::<Vec<_>>().chunks(8000) {
        let messages = chunk.iter().map(|&n| Message::new(topic(), body(n))).collect();
        for put in producer.put_many(messages).await {
            put.unwrap();
        }
    }
    let redis = RedisConfig { url: server.url().parse().unwrap(), ..RedisConfig::default() };
    Ready { client, redis, count }
}

fn rate(count: usize, took: Duration) -> f64 {
    count as f64 / took.as_secs_f64()
}

/// Reserve and ack alone, as a bare loop with one pipeline for all shards.
async fn limit(ready: &Ready) -> f64 {
    let request = ReserveRequest { topics: vec![topic()], most: 128, most_bytes: 0, lease: None };
    let requests: Vec<_> = ready.client.shards().shards().map(|shard| (shard, request.clone())).collect();
    let start = Instant::now();
    let mut done = 0;
    while done < ready.count {
        let mut receipts = Vec::new();
        for report in ready.client.reserve_many(&requests).await {
            receipts.extend(report.unwrap().messages.into_iter().map(|message| message.receipt));
        }
        done += receipts.len();
        ready.client.ack(&receipts).await.into_iter().for_each(|settled| drop(settled.unwrap()));
    }
    rate(done, start.elapsed())
}

/// The forwarder with one sink.
async fn forwarded(ready: &Ready, sink: SinkConfig, to: &str) -> f64 {
    let route = RouteConfig {
        topic: "t".to_owned(),
        sink: "s".to_owned(),
        to: Some(to.to_owned()),
        key: None,
        headers: BTreeMap::new(),
    };
    let settings = delayq_forwarder::Settings {
        forwarder: ForwarderConfig::default(),
        sinks: BTreeMap::from([("s".to_owned(), sink)]),
        routes: vec![route],
    };
    let deps = Deps {
        client: ready.client.clone(),
        redis: ready.redis.clone(),
        metrics: Metrics::new(),
        readiness: Readiness::new(),
    };
    let forwarder = build(settings, deps).await.unwrap();
    let admin = Admin::new(ready.client.clone());
    let shutdown = Shutdown::new();
    let start = Instant::now();
    let running = tokio::spawn(forwarder.run(shutdown.clone()));
    while admin.count(&topic()).await.unwrap().pending() > 0 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let took = start.elapsed();
    shutdown.request();
    running.await.unwrap().unwrap();
    rate(ready.count, took)
}

/// Publishes every body, so many at a time; `publish` ends with its confirm.
#[cfg_attr(
    not(any(feature = "kafka", feature = "rabbitmq", feature = "nats", feature = "webhook")),
    allow(dead_code, reason = "only the brokers' clients publish one by one")
)]
async fn bare<F, Fut>(count: usize, in_flight: usize, publish: F) -> f64
where
    F: Fn(Vec<u8>, usize) -> Fut,
    Fut: Future<Output = ()>,
{
    let start = Instant::now();
    stream::iter(0..count)
        .map(|n| publish(body(n), n))
        .buffer_unordered(in_flight)
        .collect::<Vec<()>>()
        .await;
    rate(count, start.elapsed())
}

/// One sink's two figures: forwarded, bare.
async fn figures(name: &str, redis: &RedisServer, count: usize) -> Option<(f64, f64)> {
    match name {
        "file" => Some(file(redis, count).await),
        "redis-stream" => Some(redis_stream(redis, count).await),
        #[cfg(feature = "rabbitmq")]
        "rabbitmq" => Some(rabbitmq(redis, count).await),
        #[cfg(feature = "nats")]
        "nats" => Some(nats(redis, count).await),
        #[cfg(feature = "kafka")]
        "kafka" => Some(kafka(redis, count).await),
        #[cfg(feature = "webhook")]
        "webhook" => Some(webhook(redis, count).await),
        _ => None,
    }
}

async fn file(redis: &RedisServer, count: usize) -> (f64, f64) {
    use std::io::Write;
    let folder = tempfile::tempdir().unwrap();
    let config = FileConfig { dir: folder.path().to_owned(), rotate_at: None };
    let sink = SinkConfig { file: Some(config), ..SinkConfig::default() };
    let forwarded = forwarded(&ready(redis, count).await, sink, "out").await;
    let line = std::fs::read(folder.path().join("out")).unwrap();
    let length = line.iter().position(|&byte| byte == b'\n').unwrap() + 1;
    let mut file = std::fs::File::create(folder.path().join("bare")).unwrap();
    let start = Instant::now();
    for _ in 0..count.div_ceil(BATCH) {
        file.write_all(&line[..length].repeat(BATCH)).unwrap();
        file.sync_data().unwrap();
    }
    (forwarded, rate(count, start.elapsed()))
}

async fn redis_stream(redis: &RedisServer, count: usize) -> (f64, f64) {
    let target = RedisServer::start().await;
    let other = RedisConfig { url: target.url().parse().unwrap(), ..RedisConfig::default() };
    let config = RedisStreamConfig { redis: Some(other), ..RedisStreamConfig::default() };
    let sink = SinkConfig { redis_stream: Some(config), ..SinkConfig::default() };
    let forwarded = forwarded(&ready(redis, count).await, sink, "out").await;
    let connection = target.connect().await;
    let start = Instant::now();
    stream::iter(0..count.div_ceil(BATCH))
        .map(|batch| {
            let mut connection = connection.clone();
            async move {
                let mut pipeline = redis::pipe();
                for n in batch * BATCH..(batch + 1) * BATCH {
                    pipeline.cmd("XADD").arg("bare").arg("*").arg("payload").arg(body(n));
                    for header in [
                        "delayq-id",
                        "delayq-topic",
                        "delayq-attempt",
                        "delayq-delivery",
                        "delayq-due",
                        "delayq-ready",
                    ] {
                        pipeline.arg(header).arg("0123456789012345");
                    }
                    pipeline.arg("delayq-late-ms").arg("0.123").ignore();
                }
                pipeline.query_async::<()>(&mut connection).await.unwrap();
            }
        })
        .buffer_unordered(IN_FLIGHT / BATCH)
        .collect::<Vec<()>>()
        .await;
    (forwarded, rate(count, start.elapsed()))
}

#[cfg(feature = "rabbitmq")]
async fn rabbitmq(redis: &RedisServer, count: usize) -> (f64, f64) {
    use lapin::options::{BasicPublishOptions, ConfirmSelectOptions, QueueDeclareOptions};
    use lapin::{BasicProperties, Connection, ConnectionProperties, types::FieldTable};
    let server = delayq_tests::rabbitmq_server::RabbitmqServer::start().await;
    let connection = Connection::connect(&server.url(), ConnectionProperties::default()).await.unwrap();
    let channel = connection.create_channel().await.unwrap();
    for queue in ["out", "bare"] {
        channel
            .queue_declare(queue.into(), QueueDeclareOptions::durable(), FieldTable::default())
            .await
            .unwrap();
    }
    let config = delayq_forwarder::RabbitmqConfig {
        server: server.address().parse().unwrap(),
        ..delayq_forwarder::RabbitmqConfig::default()
    };
    let sink = SinkConfig { rabbitmq: Some(config), ..SinkConfig::default() };
    let forwarded = forwarded(&ready(redis, count).await, sink, "out").await;
    channel.confirm_select(ConfirmSelectOptions::default()).await.unwrap();
    let bare = bare(count, IN_FLIGHT, async |body, _| {
        let options = BasicPublishOptions { mandatory: true, ..BasicPublishOptions::default() };
        let properties = BasicProperties::default().with_delivery_mode(2);
        let confirm =
            channel.basic_publish("".into(), "bare".into(), options, &body, properties).await.unwrap();
        assert!(confirm.await.unwrap().is_ack());
    })
    .await;
    (forwarded, bare)
}

#[cfg(feature = "nats")]
async fn nats(redis: &RedisServer, count: usize) -> (f64, f64) {
    use async_nats::jetstream::{self, context::ContextBuilder, message::PublishMessage, stream::Config};
    let server = delayq_tests::nats_server::NatsServer::start(&[]).await;
    let client = async_nats::connect(server.url()).await.unwrap();
    let config =
        Config { name: "S".to_owned(), subjects: vec![">".to_owned()], no_ack: false, ..Config::default() };
    let subjects = vec!["out".to_owned(), "bare".to_owned()];
    jetstream::new(client.clone()).create_stream(Config { subjects, ..config }).await.unwrap();
    let config = delayq_forwarder::NatsConfig {
        servers: vec![server.url()],
        ..delayq_forwarder::NatsConfig::default()
    };
    let sink = SinkConfig { nats: Some(config), ..SinkConfig::default() };
    let forwarded = forwarded(&ready(redis, count).await, sink, "out").await;
    let context = ContextBuilder::new().max_ack_inflight(65_536).build(client);
    let bare = bare(count, IN_FLIGHT, async |body, n| {
        let message = PublishMessage::build().payload(body.into()).message_id(n.to_string());
        context.send_publish("bare", message).await.unwrap().await.unwrap();
    })
    .await;
    (forwarded, bare)
}

#[cfg(feature = "kafka")]
async fn kafka(redis: &RedisServer, count: usize) -> (f64, f64) {
    use rdkafka::ClientConfig;
    use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
    use rdkafka::client::DefaultClientContext;
    use rdkafka::producer::{FutureProducer, FutureRecord};
    let server = delayq_tests::kafka_server::KafkaServer::start().await;
    let mut settings = ClientConfig::new();
    settings.set("bootstrap.servers", server.address()).set("acks", "all").set("enable.idempotence", "true");
    settings.set("linger.ms", "1");
    let admin: AdminClient<DefaultClientContext> = settings.create().unwrap();
    let topics = ["out", "bare"].map(|name| NewTopic::new(name, 3, TopicReplication::Fixed(1)));
    admin.create_topics(&topics, &AdminOptions::new()).await.unwrap();
    let config = delayq_forwarder::KafkaConfig {
        brokers: vec![server.address()],
        ..delayq_forwarder::KafkaConfig::default()
    };
    let sink = SinkConfig { kafka: Some(config), ..SinkConfig::default() };
    let forwarded = forwarded(&ready(redis, count).await, sink, "out").await;
    let producer: FutureProducer = settings.create().unwrap();
    let bare = bare(count, IN_FLIGHT, async |body, n| {
        let key = n.to_string();
        let record = FutureRecord::to("bare").key(key.as_bytes()).payload(&body);
        producer.send_result(record).map_err(|(error, _)| error).unwrap().await.unwrap().unwrap();
    })
    .await;
    (forwarded, bare)
}

#[cfg(feature = "webhook")]
async fn webhook(redis: &RedisServer, count: usize) -> (f64, f64) {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut buffer = Vec::with_capacity(4096);
                while stream.read_buf(&mut buffer).await.is_ok_and(|read| read > 0) {
                    // Every request here is a head and a body of one size, or a HEAD without one.
                    while let Some(end) = buffer.windows(4).position(|window| window == b"\r\n\r\n") {
                        let length = if buffer.starts_with(b"HEAD") { 0 } else { BODY_BYTES };
                        if buffer.len() < end + 4 + length {
                            break;
                        }
                        buffer.drain(..end + 4 + length);
                        stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").await.unwrap();
                    }
                }
            });
        }
    });
    let config =
        delayq_forwarder::WebhookConfig { url: url.clone(), ..delayq_forwarder::WebhookConfig::default() };
    let connections = usize::from(config.connections);
    let sink = SinkConfig { webhook: Some(config), ..SinkConfig::default() };
    let forwarded = forwarded(&ready(redis, count).await, sink, "").await;
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let bare = bare(count, connections, async |body, _| {
        client.post(&url).body(body).send().await.unwrap().error_for_status().unwrap();
    })
    .await;
    (forwarded, bare)
}

#[tokio::main]
async fn main() {
    install_tls();
    let mut arguments = std::env::args().skip(1);
    let count = arguments.next().map_or(50_000, |text| text.parse().expect("a number of messages"));
    let mut names: Vec<String> = arguments.collect();
    if names.is_empty() {
        names = ["file", "redis-stream", "rabbitmq", "nats", "kafka", "webhook"].map(str::to_owned).into();
    }
    let redis = RedisServer::start().await;
    let limit = limit(&ready(&redis, count).await).await;
    println!("{count} messages of {BODY_BYTES} bytes; reserve and ack alone: {limit:.0}/s");
    println!("{:<14}{:>12}{:>12}{:>10}", "sink", "forwarded/s", "bare/s", "of lower");
    for name in names {
        match figures(&name, &redis, count).await {
            None => println!("{name:<14}not in this build"),
            Some((forwarded, bare)) => {
                println!("{name:<14}{forwarded:>12.0}{bare:>12.0}{:>10.2}", forwarded / bare.min(limit));
            }
        }
    }
}
