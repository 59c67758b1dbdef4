//! Due time → an independent consumer of the destination has the message, with a timer, a forwarder and the consumer in
//! processes of their own.

use crate::deployment::Deployment;
use crate::due;
use crate::receivers::{self, Receiver};
use delayq_tests::redis_server::{RedisOptions, RedisServer};
use tokio::sync::mpsc;

const SECONDS: usize = 10;
const SHARDS: u16 = 16;
const AHEAD_MS: u64 = 2500;
const TOPIC: &str = "t";

async fn receiver(name: &str) -> Option<Receiver> {
    match name {
        "redis-stream" => Some(receivers::redis_stream().await),
        "nats" => Some(receivers::nats::start().await),
        "rabbitmq" => Some(receivers::rabbitmq::start().await),
        "kafka" => Some(receivers::kafka::start().await),
        _ => None,
    }
}

async fn measure(name: &str, rate: usize) {
    let Some(receiver) = receiver(name).await else {
        println!("{name:<14}not in this build, or it has no receiver");
        return;
    };
    let redis = RedisServer::start_with(RedisOptions::default().append_only("everysec")).await;
    let deployment = Deployment::new(&redis, SHARDS).await;
    let _timer = deployment.timer().await;
    let text = format!("{}\n[[routes]]\ntopic = \"{TOPIC}\"\nsink = \"s\"\nto = \"out\"\n", receiver.sink);
    let _forwarder = deployment.forwarder_process(&text).await;
    let (seen, mut late) = mpsc::unbounded_channel();
    let receiving = tokio::spawn((receiver.receive)(seen));
    let from = u64::try_from(due::now().as_millis()).unwrap() + AHEAD_MS;
    let dues = due::spread(rate, SECONDS, from);
    deployment.put_due(TOPIC, &dues).await;
    let mut waits = Vec::with_capacity(dues.len());
    while waits.len() < dues.len() {
        waits.push(late.recv().await.expect("the receiver goes on"));
    }
    receiving.abort();
    let [p50, p99, max] = [0.5, 0.99, 1.0].map(|part| due::percentile_ms(&mut waits, part));
    println!("{name:<14}{p50:>10.2}{p99:>10.2}{max:>10.2}");
}

/// Measures the destinations of these names; none: all of them.
pub(crate) async fn run(rate: usize, mut names: Vec<String>) {
    if names.is_empty() {
        names = ["redis-stream", "nats", "rabbitmq", "kafka"].map(str::to_owned).into();
    }
    println!("{rate} messages a second for {SECONDS} s; due → consumer has it, ms");
    println!("{:<14}{:>10}{:>10}{:>10}", "sink", "p50", "p99", "max");
    for name in names {
        measure(&name, rate).await;
    }
}
