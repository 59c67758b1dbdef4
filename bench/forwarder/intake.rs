//! The intake: records of a broker until they are settled messages in Redis, compared with a bare consumer that puts
//! the same messages by `put_many` in batches of the same size and settles them.
//!
//! The records are published first. Each run reads from the start through its own consumer group, durable consumer or
//! queue, into a separate deployment. Intake and bare consumer take turns to go first; medians count. A measurement
//! starts after a tenth of the records.

mod kafka;
mod nats;
mod rabbitmq;

use crate::deployment::{BODY_BYTES, Deployment, metric};
use crate::sinks::course::{Course, Figure};
use crate::sinks::median;
use delayq::{Message, MessageId, Producer, ProducerOptions, Topic, UnixMillis};
use delayq_compensator::{IntakeConfig, SourceDeps, SourcesMetrics, build_intakes};
use delayq_service::{Metrics, Readiness, Shutdown, Tasks};
use delayq_tests::redis_server::{RedisServer, SharedRedis};
use delayq_tests::shared::namespace;
use futures_util::{FutureExt, Stream, StreamExt};
use std::any::Any;
use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

const SHARDS: u16 = 16;
const ROUNDS: usize = 3;
const BATCH: usize = 500;
const TOPIC: &str = "t";
const DUE: &str = "4102444800000";
const LOOK_EVERY: Duration = Duration::from_millis(5);
const STUCK: Duration = Duration::from_secs(100);

type Bare = Box<dyn Fn(String, Producer, Arc<Course>) -> Pin<Box<dyn Future<Output = ()>>>>;

struct Stand {
    intake: Box<dyn Fn(String) -> IntakeConfig>,
    bare: Bare,
    _server: Box<dyn Any>,
}

fn headers(n: usize) -> [(&'static str, String); 3] {
    [
        ("delayq-id", format!("order-{n:09}")),
        ("delayq-topic", TOPIC.to_owned()),
        ("delayq-due", DUE.to_owned()),
    ]
}

/// The message of a record, as a bare consumer creates it.
fn message(id: &str, body: &[u8]) -> Message {
    let due = UnixMillis::new(DUE.parse().unwrap());
    Message::new(Topic::new(TOPIC).unwrap(), body).with_id(MessageId::own(id).unwrap()).at(due)
}

async fn put(producer: &Producer, messages: Vec<Message>, course: &Course) {
    let count = messages.len();
    for put in producer.put_many(messages).await {
        assert!(put.unwrap().outcome.is_accepted());
    }
    course.confirmed(count);
}

/// Records that have arrived: waits for the first, takes at most a batch.
async fn arrived<R>(mut records: impl Stream<Item = R> + Unpin) -> Vec<R> {
    let mut batch = vec![records.next().await.expect("a consumer does not end by itself")];
    while batch.len() < BATCH
        && let Some(Some(record)) = records.next().now_or_never()
    {
        batch.push(record);
    }
    batch
}

async fn bare(stand: &Stand, redis: &SharedRedis, count: usize, name: &str) -> Figure {
    let deployment = Deployment::new(redis, SHARDS).await;
    let producer = Producer::start(deployment.client.clone(), ProducerOptions::default());
    let course = Course::new(count);
    (stand.bare)(name.to_owned(), producer, Arc::clone(&course)).await;
    let figure = course.figure();
    assert_eq!(deployment.pending(TOPIC).await, count as u64);
    figure
}

async fn taken_in(stand: &Stand, redis: &SharedRedis, count: usize, name: &str) -> Figure {
    let deployment = Deployment::new(redis, SHARDS).await;
    let metrics = Metrics::new();
    let deps = SourceDeps {
        client: deployment.client.clone(),
        metrics: SourcesMetrics::register(&metrics),
        readiness: Readiness::new(),
    };
    let configs = BTreeMap::from([("in".to_owned(), (stand.intake)(name.to_owned()))]);
    let (tasks, supervisor) = Tasks::new(Shutdown::new());
    let (course, start) = (Course::new(count), Instant::now());
    for source in build_intakes(&configs, &deps).unwrap() {
        tasks.spawn(source.name().to_owned(), source.run(tasks.shutdown().clone()));
    }
    loop {
        let done =
            metric(&metrics, "delayq_source_settled_total{source=\"intake.in\",outcome=\"done\"}") as usize;
        course.reached(done);
        if done >= count {
            break;
        }
        assert!(start.elapsed() < STUCK, "the intake is stuck: {}", metrics.encode());
        tokio::time::sleep(LOOK_EVERY).await;
    }
    let figure = course.figure();
    assert_eq!(deployment.pending(TOPIC).await, count as u64);
    assert!(supervisor.drain(STUCK).await.left_running.is_empty());
    figure
}

/// Measures the named intakes, by default all. `--markdown` prints a table for docs/performance.md.
pub(crate) async fn run(count: usize, mut names: Vec<String>) {
    let markdown = names.iter().position(|name| name == "--markdown").map(|at| names.remove(at)).is_some();
    if names.is_empty() {
        names = ["kafka", "nats", "rabbitmq"].map(str::to_owned).into();
    }
    let redis = RedisServer::private().await;
    println!(
        "{count} records of {BODY_BYTES} bytes in batches of {BATCH}, medians of {ROUNDS}; records a second\n"
    );
    match markdown {
        true => println!(
            "| intake | taken in | µs | bare | µs | of bare |\n| --- | ---: | ---: | ---: | ---: | ---: |"
        ),
        false => println!(
            "{:<10}{:>12}{:>7}{:>12}{:>7}{:>10}",
            "intake", "taken in", "µs", "bare", "µs", "of bare"
        ),
    }
    for name in names {
        let runs: Vec<String> = (0..2 * ROUNDS).map(|_| namespace()).collect();
        let stand = match name.as_str() {
            "kafka" => kafka::stand(count).await,
            "nats" => nats::stand(count).await,
            "rabbitmq" => rabbitmq::stand(count, &runs).await,
            _ => {
                eprintln!("{name}: there is no such intake");
                continue;
            }
        };
        let (our, bare) = measure(&stand, &redis, count, &runs).await;
        let ratio = our.rate / bare.rate;
        let (ours, bares) = ((our.rate, our.cost_us), (bare.rate, bare.cost_us));
        match markdown {
            true => println!(
                "| {name} | {:.0} | {:.1} | {:.0} | {:.1} | {ratio:.2} |",
                ours.0, ours.1, bares.0, bares.1
            ),
            false => println!(
                "{name:<10}{:>12.0}{:>7.1}{:>12.0}{:>7.1}{ratio:>10.2}",
                ours.0, ours.1, bares.0, bares.1
            ),
        }
    }
}

async fn measure(stand: &Stand, redis: &SharedRedis, count: usize, runs: &[String]) -> (Figure, Figure) {
    let (mut bares, mut ours) = (Vec::new(), Vec::new());
    for (round, names) in runs.chunks_exact(2).enumerate() {
        if round % 2 == 0 {
            bares.push(bare(stand, redis, count, &names[0]).await);
            ours.push(taken_in(stand, redis, count, &names[1]).await);
        } else {
            ours.push(taken_in(stand, redis, count, &names[1]).await);
            bares.push(bare(stand, redis, count, &names[0]).await);
        }
        let _: String = redis.command(&["FLUSHALL"]).await;
    }
    (median(ours), median(bares))
}
