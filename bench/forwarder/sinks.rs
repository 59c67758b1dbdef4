//! Each sink end to end, from ready in Redis to confirmed, compared with a bare client that publishes the same bodies
//! with the same headers and waits for the same confirms, and with Redis alone (reserve and ack of as many messages).
//!
//! The three are measured in sequence, three times, with bare client and forwarder in alternating order; medians count.
//! Connecting and starting are excluded: a measurement starts after a tenth of the messages. The target, *of lower*,
//! compares the forwarder with the slower of the other two. After each rate stands the CPU of the whole machine per
//! message, in microseconds of a core.

pub(crate) mod course;
mod file;
mod kafka;
mod nats;
mod rabbitmq;
mod redis;
mod target;
mod webhook;

use crate::deployment::{BODY_BYTES, Deployment, metric, route, topic};
use course::{Course, Figure};
use delayq::Client;
use delayq::protocol::{Holder, ReserveRequest, ShardId};
use delayq_service::Shutdown;
use delayq_tests::redis_server::{RedisServer, SharedRedis};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use target::{Target, next_run, set_room};

const SHARDS: u16 = 16;
const ROUNDS: usize = 3;
/// Concurrent loops of reserve and ack, each with separate shards.
const LIMIT_LOOPS: usize = 2;
const TOPIC: &str = "t";
const LOOK_AT_MOST_EVERY: Duration = Duration::from_millis(2);
const LOOK_AT_LEAST_EVERY: Duration = Duration::from_millis(50);
const STUCK: Duration = Duration::from_secs(100);

/// Reserve and ack alone: bare loops with one pipeline for all their shards.
async fn limit(server: &SharedRedis, count: usize) -> Figure {
    let deployment = Deployment::new(server, SHARDS).await;
    deployment.fill(TOPIC, count).await;
    let shards: Vec<ShardId> = deployment.client.shards().shards().collect();
    let course = Course::new(count);
    let loops = shards.chunks(shards.len().div_ceil(LIMIT_LOOPS));
    let take = |some: &[ShardId]| take_all(deployment.client.clone(), some.to_vec(), Arc::clone(&course));
    let loops: Vec<_> = loops.map(|some| tokio::spawn(take(some))).collect();
    for one in loops {
        one.await.unwrap();
    }
    course.figure()
}

async fn take_all(client: Client, shards: Vec<ShardId>, course: Arc<Course>) {
    let request = ReserveRequest { topics: vec![topic(TOPIC)], most: 128, max_bytes: 0, lease: None };
    let requests: Vec<_> = shards.into_iter().map(|shard| (shard, request.clone())).collect();
    loop {
        let mut receipts = Vec::new();
        for report in Holder::new(client.clone()).reserve(&requests).await {
            receipts.extend(report.unwrap().messages.into_iter().map(|message| message.receipt));
        }
        if receipts.is_empty() {
            return;
        }
        Holder::new(client.clone())
            .ack(&receipts)
            .await
            .into_iter()
            .for_each(|settled| drop(settled.unwrap()));
        course.confirmed(receipts.len());
    }
}

/// The forwarder with one sink, from its start until everything is acked.
async fn forwarded(server: &SharedRedis, target: &Target, count: usize) -> Figure {
    let deployment = Deployment::new(server, SHARDS).await;
    deployment.fill(TOPIC, count).await;
    let sinks = BTreeMap::from([("s".to_owned(), target.sink.clone())]);
    let (forwarder, metrics) = deployment.forwarder(sinks, vec![route(TOPIC, "s", target.to)]).await;
    let shutdown = Shutdown::new();
    let course = Course::new(count);
    let start = Instant::now();
    let running = tokio::spawn(forwarder.run(shutdown.clone()));
    loop {
        let delivered = metric(&metrics, "delayq_forwarder_settled_total{word=\"delivered\"}") as usize;
        course.reached(delivered);
        if delivered >= count {
            break;
        }
        assert!(start.elapsed() < STUCK, "the forwarder is stuck: {}", metrics.encode());
        // Reading counters costs about 0.1 ms: poll rarely until the end is near.
        let left = start.elapsed().mul_f64((count - delivered) as f64 / delivered.max(1) as f64);
        tokio::time::sleep((left / 2).clamp(LOOK_AT_MOST_EVERY, LOOK_AT_LEAST_EVERY)).await;
    }
    let figure = course.figure();
    assert_eq!(deployment.pending(TOPIC).await, 0);
    shutdown.request();
    running.await.unwrap().unwrap();
    figure
}

async fn bare(target: &Target, count: usize) -> Figure {
    next_run();
    let course = Course::new(count);
    (target.bare)(count, Arc::clone(&course)).await;
    course.figure()
}

async fn target(name: &str) -> Option<Target> {
    match name {
        "file" => Some(file::target()),
        "redis" => Some(redis::target().await),
        "rabbitmq" => Some(rabbitmq::target().await),
        "nats" => Some(nats::target().await),
        "kafka" => Some(kafka::target().await),
        "webhook" => Some(webhook::target().await),
        _ => None,
    }
}

pub(crate) fn median(mut figures: Vec<Figure>) -> Figure {
    figures.sort_by(|one, other| one.rate.total_cmp(&other.rate));
    figures[figures.len() / 2]
}

async fn measure(name: &str, redis: &SharedRedis, count: usize, rooms: &[(u32, u16)]) {
    let Some(mut target) = target(name).await else {
        println!("{name:<14}not in this build");
        return;
    };
    for &(in_flight, batch) in rooms {
        (target.sink.in_flight, target.sink.batch) = (in_flight, batch);
        set_room(in_flight, batch);
        compare(name, &target, redis, count).await;
    }
}

async fn compare(name: &str, target: &Target, redis: &SharedRedis, count: usize) {
    let (mut limits, mut bares, mut ours) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        limits.push(limit(redis, count).await);
        // A broker slows down with its contents: alternate the order.
        if round % 2 == 0 {
            bares.push(bare(target, count).await);
            ours.push(forwarded(redis, target, count).await);
        } else {
            ours.push(forwarded(redis, target, count).await);
            bares.push(bare(target, count).await);
        }
        let _: String = redis.command(&["FLUSHALL"]).await;
    }
    let (limit, bare, our) = (median(limits), median(bares), median(ours));
    print!("{name:<14}{:>10}", format!("{}/{}", target.sink.in_flight, target.sink.batch));
    for Figure { rate, cost_us } in [our, bare, limit] {
        print!("{rate:>12.0}{cost_us:>7.1}");
    }
    println!("{:>10.2}", our.rate / bare.rate.min(limit.rate));
}

/// Measures the named sinks, by default all.
pub(crate) async fn run(count: usize, mut names: Vec<String>) {
    let room = |text: &String| {
        let (in_flight, batch) = text.split_once('/')?;
        Some((in_flight.parse().ok()?, batch.parse().ok()?))
    };
    let mut rooms: Vec<(u32, u16)> = names.iter().filter_map(room).collect();
    if rooms.is_empty() {
        let default = delayq_forwarder::SinkConfig::default();
        rooms.push((default.in_flight, default.batch));
    }
    names.retain(|name| room(name).is_none());
    if names.is_empty() {
        names = ["file", "redis", "rabbitmq", "nats", "kafka", "webhook"].map(str::to_owned).into();
    }
    let redis = RedisServer::private().await;
    println!("{count} messages of {BODY_BYTES} bytes, medians of {ROUNDS}; messages a second");
    println!(
        "{:<14}{:>10}{:>12}{:>7}{:>12}{:>7}{:>12}{:>7}{:>10}",
        "sink", "room", "forwarded", "µs", "bare", "µs", "limit", "µs", "of lower"
    );
    for name in names {
        measure(&name, &redis, count, &rooms).await;
    }
}
