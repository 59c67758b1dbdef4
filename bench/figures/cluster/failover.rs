//! Failovers that an operator orders: how soon messages flow again, and for how long none does.

use crate::bench::{Bench, PATIENCE, client};
use crate::clock;
use crate::error::BenchError;
use crate::figures::{Figure, Target};
use crate::lateness::apart;
use crate::messages::body;
use crate::shape::Shape;
use crate::timers::Timers;
use delayq::protocol::{Keys, ShardId};
use delayq::{Admin, Client, Consumer, ConsumerOptions, Message, Producer, ProducerOptions, Topic};
use delayq_tests::redis_cluster::RedisCluster;
use delayq_tests::sentinel::SERVICE;
use delayq_tests::sentinel_group::SentinelGroup;
use std::time::{Duration, Instant};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinSet;

/// How often a message is put.
const EVERY: Duration = Duration::from_millis(5);
/// For how long they flow before the failover.
const BEFORE: Duration = Duration::from_secs(2);
/// Until when the first message has to arrive once the new master is known, in ms.
const FIRST_MS: f64 = 1000.0;

/// The shard whose master is replaced.
const SHARD: ShardId = ShardId::new(0);

/// What a failover did to the messages of a shard.
struct Failover {
    /// From the new master being known to the first message.
    first: Duration,
    /// The longest time without one.
    silence: Duration,
}

// === impl Bench ===

impl Bench {
    /// A failover ordered of a Redis Cluster, and one ordered of sentinels, while a timer and a worker serve messages.
    ///
    /// # Errors
    /// No message arrives any more.
    pub(super) async fn failovers(&self, shape: Shape) -> Result<Vec<Figure>, BenchError> {
        let cluster = RedisCluster::with_replicas().await;
        let slot = Keys::new(delayq::Namespace::default()).slot(SHARD);
        let replaced = async {
            cluster.fail_over(slot, None).await;
        };
        let by_cluster = failover(client(&cluster.url(), shape.shards), replaced).await?;

        let group = SentinelGroup::start().await;
        let former = group.master().await;
        let replaced = async {
            group.sentinels[0].command::<()>(&["SENTINEL", "FAILOVER", SERVICE]).await;
            group.master_after(former).await;
        };
        let by_sentinel = failover(client(&group.url(), shape.shards), replaced).await?;

        let named = [("CLUSTER FAILOVER", by_cluster), ("SENTINEL FAILOVER", by_sentinel)];
        Ok(named.into_iter().flat_map(|(name, failover)| failover.figures(name, shape)).collect())
    }
}

// === impl Failover ===

impl Failover {
    fn figures(&self, name: &str, shape: Shape) -> [Figure; 2] {
        let ms = |what: &str, span: Duration| {
            Figure::new(shape, format!("{name}, {what}"), "ms", span.as_secs_f64() * 1000.0)
        };
        [
            ms("new master known -> first message", self.first).target(Target::AtMost(FIRST_MS)),
            ms("longest time without a message", self.silence),
        ]
    }
}

/// Lets messages flow while the master of their shard is replaced. `replaced` ends when the new one is known.
async fn failover(client: Client, replaced: impl Future<Output = ()>) -> Result<Failover, BenchError> {
    Admin::new(client.clone()).init().await?;
    let topic = Topic::new("bench")?;
    let (arrived, mut arrivals) = unbounded_channel();
    let timers = Timers::new(None);
    let watch = async {
        timers.own_all(client.shards()).await?;
        let mut flow = JoinSet::new();
        flow.spawn(produce(client.clone(), topic.clone()));
        flow.spawn(apart(consume(client.clone(), topic.clone(), arrived)));
        tokio::select! {
            measured = measure(&mut arrivals, replaced) => measured,
            Some(ended) = flow.join_next() => {
                let ended = ended.map_err(|error| BenchError::Wrong(error.to_string()))?;
                ended.and(Err(BenchError::Wrong("the messages ended".to_owned())))
            }
        }
    };
    timers.during(client.clone(), watch).await
}

async fn measure(
    arrivals: &mut UnboundedReceiver<Instant>,
    replaced: impl Future<Output = ()>,
) -> Result<Failover, BenchError> {
    let mut last = next(arrivals).await?;
    let begin = last + BEFORE;
    while last < begin {
        last = next(arrivals).await?;
    }
    let (mut silence, mut known) = (Duration::ZERO, None);
    tokio::pin!(replaced);
    loop {
        tokio::select! {
            () = &mut replaced, if known.is_none() => known = Some(clock::now()),
            arrival = next(arrivals) => {
                let arrival = arrival?;
                silence = silence.max(arrival - last);
                last = arrival;
                if let Some(known) = known.filter(|&known| arrival > known) {
                    return Ok(Failover { first: arrival - known, silence });
                }
            }
        }
    }
}

async fn next(arrivals: &mut UnboundedReceiver<Instant>) -> Result<Instant, BenchError> {
    let arrival = tokio::time::timeout(PATIENCE, arrivals.recv()).await;
    arrival.ok().flatten().ok_or_else(|| BenchError::Wrong("no message arrived within a minute".to_owned()))
}

/// Puts a message of the shard again and again, due at once, and waits for none of the answers.
async fn produce(client: Client, topic: Topic) -> Result<(), BenchError> {
    let shards = client.shards();
    let producer = Producer::start(client, ProducerOptions::default());
    let mut puts = JoinSet::new();
    let names = (0..).map(|n| format!("order-{n}"));
    for name in names.filter(|name| shards.shard_of_name(name) == SHARD) {
        let message = Message::new(topic.clone(), body()).id(name)?;
        let producer = producer.clone();
        puts.spawn(async move { producer.put(message).await });
        while puts.try_join_next().is_some() {}
        tokio::time::sleep(EVERY).await;
    }
    Ok(())
}

/// Takes and acks, as in a process of its own, and says when each message came.
async fn consume(client: Client, topic: Topic, arrived: UnboundedSender<Instant>) -> Result<(), BenchError> {
    let mut consumer = Consumer::start(client, ConsumerOptions::new([topic]));
    while let Some(delivery) = consumer.next().await {
        if arrived.send(clock::now()).is_err() {
            break;
        }
        delivery.ack_later();
    }
    Ok(())
}
