//! Whole lives: put → due → pumped → reserved → acked, sustained for a minute by one Redis.

use crate::bench::{Bench, Prepared};
use crate::clock;
use crate::error::BenchError;
use crate::figures::{Figure, Target};
use crate::lateness::apart;
use crate::messages::Messages;
use crate::server::redis_cpu;
use crate::shape::Shape;
use crate::timers::Timers;
use delayq::{Client, Consumer, ConsumerOptions, Producer, ProducerOptions, Topic, UnixMillis};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Semaphore, oneshot};
use tokio::task::JoinSet;

const WARM_UP: Duration = Duration::from_secs(5);
const AHEAD_MS: std::ops::Range<u64> = 500..1500;
/// Maximum unfinished messages; beyond it producers wait for acks.
const MOST_ALIVE: usize = 150_000;
/// Maximum messages that the consumer holds.
const CONCURRENCY: usize = 1024;

#[derive(Clone, Copy, Debug)]
enum Puts {
    /// 64 producers with one caller each: every put is a separate call.
    Alone,
    /// Four callers with batches of 500.
    InBatches,
}

// === impl Puts ===

impl Puts {
    const fn callers(self) -> usize {
        match self {
            Self::Alone => 64,
            Self::InBatches => 4,
        }
    }

    const fn batch(self) -> usize {
        match self {
            Self::Alone => 1,
            Self::InBatches => 500,
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Alone => "life, each put a call",
            Self::InBatches => "life, puts in batches of 500",
        }
    }

    const fn target(self) -> f64 {
        match self {
            Self::Alone => 25_000.0,
            Self::InBatches => 60_000.0,
        }
    }
}

// === impl Bench ===

impl Bench {
    /// First with single puts, then with batches. `timers` are two timers.
    pub(crate) async fn lives(&self, shape: Shape, timers: &Timers) -> Result<Vec<Figure>, BenchError> {
        let mut figures = self.life(shape, Puts::Alone, timers).await?;
        figures.extend(self.life(shape, Puts::InBatches, timers).await?);
        Ok(figures)
    }

    async fn life(&self, shape: Shape, puts: Puts, timers: &Timers) -> Result<Vec<Figure>, BenchError> {
        let mut prepared = self.prepared(shape).await?;
        let alive = Arc::new(Semaphore::new(MOST_ALIVE));
        let window = async {
            prepared.owned_by(timers).await?;
            let mut producing = JoinSet::new();
            for _ in 0..puts.callers() {
                let (client, messages) = (prepared.client.clone(), Arc::clone(&prepared.messages));
                producing.spawn(produce(client, messages, puts, Arc::clone(&alive)));
            }
            let (_stop, stopped) = oneshot::channel();
            let (client, topic) = (self.client(shape.shards), prepared.messages.topic.clone());
            let consuming = consume(client, topic, Arc::clone(&alive), stopped);
            tokio::select! {
                figures = self.watch(&mut prepared, shape, puts) => figures,
                Some(ended) = producing.join_next() => Err(ended.map_or_else(
                    |error| BenchError::Wrong(error.to_string()),
                    |ended| ended.expect_err("producers put until they are stopped"),
                )),
                consumed = apart(consuming) => {
                    consumed.and(Err(BenchError::Wrong("the consumer ended".to_owned())))
                }
            }
        };
        timers.during(self.client(shape.shards), window).await
    }

    async fn watch(
        &self,
        prepared: &mut Prepared,
        shape: Shape,
        puts: Puts,
    ) -> Result<Vec<Figure>, BenchError> {
        tokio::time::sleep(WARM_UP).await;
        let (delivered, cpu) = (prepared.stat("delivered:1").await?, redis_cpu(&mut prepared.bare).await?);
        let start = clock::now();
        tokio::time::sleep(self.lives_last).await;
        let seconds = (clock::now() - start).as_secs_f64();
        let messages = (prepared.stat("delivered:1").await? - delivered) as f64;
        let delivered = messages / seconds;
        let cpu = redis_cpu(&mut prepared.bare).await? - cpu;
        let figure = |what: &str, unit, measured| {
            Figure::new(shape, format!("{}: {what}", puts.name()), unit, measured)
        };
        Ok(vec![
            figure("delivered", "/s", delivered).target(Target::AtLeast(puts.target())),
            figure("a core for Redis", "%", 100.0 * cpu / seconds),
            figure("delivered by a whole core of Redis", "/s", messages / cpu),
        ])
    }
}

/// Puts while polled, and while not too many messages are unfinished.
async fn produce(
    client: Client,
    messages: Arc<Messages>,
    puts: Puts,
    alive: Arc<Semaphore>,
) -> Result<(), BenchError> {
    let producer = Producer::start(client, ProducerOptions::default());
    loop {
        let room = alive.acquire_many(puts.batch() as u32).await;
        room.map_err(|error| BenchError::Wrong(error.to_string()))?.forget();
        let now = UnixMillis::new(clock::since_epoch().as_millis() as u64);
        let due = || now + Duration::from_millis(fastrand::u64(AHEAD_MS));
        messages.put_many(&producer, puts.batch(), due).await?;
    }
}

async fn consume(
    client: Client,
    topic: Topic,
    alive: Arc<Semaphore>,
    mut stopped: oneshot::Receiver<()>,
) -> Result<(), BenchError> {
    let mut options = ConsumerOptions::new([topic]);
    options.concurrency = CONCURRENCY;
    let mut consumer = Consumer::start(client, options).expect("the options are in their ranges");
    loop {
        tokio::select! {
            delivery = consumer.next() => match delivery {
                Some(delivery) => delivery.ack_later(),
                None => return Ok(()),
            },
            _ = &mut stopped => return Ok(()),
        }
        alive.add_permits(1);
    }
}
